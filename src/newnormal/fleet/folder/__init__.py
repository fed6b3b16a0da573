"""The folder of a fleet: few large files, a manifest that says which belong to it, and a log.

`shards` are the streams' blocks, stacked; `fits` what fitting left, each fit once; `log` what
changed the fleet since, as `records`. `manifest` is replaced last: until then nothing has changed.
`writer` writes them, `recovery` reads them, `replaying` applies the log and `fleet_log` writes it;
`check` verifies a folder.
"""

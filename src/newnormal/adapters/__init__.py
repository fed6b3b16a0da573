"""`Detector` as an estimator of other libraries, for their pipelines and benchmarks.

`newnormal.adapters.aeon` has `AeonDetector`, `newnormal.adapters.sktime` has `SktimeDetector`. Each
module needs its library: the extras `aeon` and `sktime`.
"""

"""Options that cannot work, of every connector: the message names the option, and no secret.

What `Options`, addresses, users, headers and certificates share is tried with one connector each;
of the others one case shows that they use the same.
"""

from typing import Any

import pytest

from newnormal.errors import ParameterError
from newnormal.io.registry import find_alert_sink, find_score_sink, find_source

pytest.importorskip("confluent_kafka", reason="needs the extra kafka")
pytest.importorskip("paho.mqtt", reason="needs the extra mqtt")

FINDERS: dict[str, Any] = {
    "source": find_source,
    "sink": find_alert_sink,
    "score sink": find_score_sink,
}
URL = {"url": "http://h"}
MAIL = {"host": "127.0.0.1", "security": "none", "from": "nn@example.org", "to": "kim@example.org"}
BROKER = {"host": "broker.example.org"}
GIVEN: dict[str, dict[str, Any]] = {
    "sink webhook": URL,
    "sink slack": URL,
    "sink alertmanager": URL,
    "sink mail": MAIL,
    "sink kafka": {"servers": ["k1:9092"], "topic": "alerts"},
    "sink mqtt": BROKER,
    "score sink remote_write": URL,
    "source prometheus": {**URL, "query": "up"},
    "source kafka": {"servers": ["k1:9092"], "topics": ["metrics"]},
    "source mqtt": {**BROKER, "topics": ["plant/{stream}/{channel}"]},
    "source files": {"paths": ["*.csv"]},
}
OVERLAPPING = ["a/+", "+/b"]
ACKS = {"acks": "0"}

# fmt: off
CASES: dict[str, list[tuple[dict[str, Any], str]]] = {
    "sink webhook": [
        ({"url": None}, "expected the option url, found none"),
        ({"url": 3}, "url: expected a text, found another int"),
        ({"url": " "}, "url: expected a text, found an empty text"),
        ({"url": "ftp://x"}, "url: expected an address that begins with http:// or https://"),
        ({"url": "http://[::1"}, "url: expected an address that begins with http://"),
        ({"url": "http://u:pw-1@host/"}, "url: expected an address without a password"),
        ({"timeout": 10}, "timeout: expected a duration of at least 100ms, such as \"10s\" or "
         "\"5m\", found 10"),
        ({"timeout": "9ms"}, "timeout: expected a duration of at least 100ms, such as \"10s\""),
        ({"ca_file": "/nowhere"}, "ca_file: expected a file of certificates"),
        ({"sekret": "x"}, "sekret: expected an option, found an unknown one\nhint: did you mean "
         "secret_env?"),
    ],
    "sink slack": [
        ({"url": "hooks.slack.com"}, "url: expected an address that begins with http://"),
        ({"format": "html"}, 'format: expected one of "slack", "text", "teams"'),
        ({"format": "teams", "channel": "c"}, "expected no channel, username"),
        ({"chanel": "c"}, "chanel: expected an option"),
    ],
    "sink alertmanager": [
        ({"url": "127.0.0.1:9093"}, "url: expected an address that begins with http://"),
        ({"url": None, "urls": []}, "urls: expected a list of texts"),
        ({"url": None, "urls": ["http://h"] * 2}, "urls: expected different addresses, found one"),
        ({"urls": ["http://h"]}, "expected the option url or urls, found both"),
        ({"url": None}, "expected the option url or urls, found none\n"
         'hint: url = "http://127.0.0.1:9093"; urls is a list of all members of a cluster'),
        ({"labels": {"team": 3}}, "labels: expected a table of texts"),
        ({"labels": {"my-team": "x"}}, "labels: expected names of letters, digits and underscores"),
        ({"labels": {"item": "x"}}, "labels: expected other names than alertname, item, kind"),
        ({"labels": {"severity": "x"}}, "hint: severity is an option of its own"),
        ({"severity": {"alert": "x"}}, "severity: expected kinds among alarm, incident"),
        ({"severity": 3}, "severity: expected a table of texts"),
        ({"user": "kim"}, "expected user and password, found a user alone"),
        ({"password": "pw-1"}, "expected user and password, found a password alone"),
        ({"user": "k", "password": "pw-1", "token": "t"}, "or a token, found both"),
        ({"token": "pw-1\n"}, "token: expected plain text, found other characters"),
        ({"repeat_every": "0s"}, "repeat_every: expected a duration of at least 1s"),
        ({"expires_after": "90s"}, "expires_after: expected at least twice repeat_every, found"),
        ({"ca_file": "/nowhere"}, "ca_file: expected a file of certificates"),
        ({"lables": {}}, "lables: expected an option"),
    ],
    "sink mail": [
        ({"host": None}, "expected the option host, found none"),
        ({"security": "ssl"}, 'security: expected one of "starttls", "tls", "none", found'),
        ({"from": "nobody"}, "from: expected an address such as plant@example.org"),
        ({"from": "a@example.org, b@example.org"}, "from: expected an address"),
        ({"from": "a@example.org\r\nBcc: c@example.org"}, "from: expected an address"),
        ({"to": []}, "to: expected a list of texts"),
        ({"to": ["kim@example.org", "<>"]}, "to: expected an address"),
        ({"to": "kim@exämple.org"}, "to: expected an address such as plant@example.org, found ch"),
        ({"port": 70_000}, "port: expected a whole number of at least 1 and at most 65,535"),
        ({"user": "kim"}, "expected user and password, found a user alone"),
        ({"password": "pw-1"}, "expected user and password, found a password alone"),
        ({"user": "kim", "password": "pw-1é"}, "password: expected ASCII"),
        ({"host": "mail.example.org", "user": "kim", "password": "pw-1"},
         'expected an encrypted connection for a password, found security = "none"'),
        ({"security": "tls", "ca_file": "/nowhere"}, "ca_file: expected a file of certificates"),
        ({"recipients": "a@b"}, "known are ca_file, from, host, password_env, password_file, "),
    ],
    "sink kafka": [
        ({"topic": None}, "expected the option topic, found none"),
        ({"options": ACKS}, "expected settings that are not set already, found acks"),
    ],
    "score sink remote_write": [
        ({"url": "ftp://h"}, "url: expected an address that begins with http:// or https://"),
        ({"every": 1}, "every: expected a duration of at least 1ms"),
        ({"keep": "1ms"}, "keep: expected a duration of at least 1s"),
        ({"labels": {"stream": "x"}}, "labels: expected names of letters, digits and _"),
        ({"labels": {"__name__": "x"}}, "found '__name__'"),
        ({"labels": {"a-b": "x"}}, "found 'a-b'"),
        ({"labels": {"a": ""}}, "found 'a'"),
        ({"labels": ["a"]}, "labels: expected a table of texts"),
        ({"headers": {"X Y": "x"}}, "headers: expected names and texts of HTTP headers"),
        ({"headers": {"X": "pw-1\r\nY: z"}}, "found 'X'"),
        ({"headers": {"Authorization": "pw-1"}}, "headers: expected no secret, found Auth"),
        ({"password": "pw-1"}, "expected user and password, found a password alone"),
        ({"timout": 3}, "timout: expected an option"),
    ],
    "source prometheus": [
        ({"url": "9090"}, "expected an address that begins with http:// or https://, found"),
        ({"query": None}, "expected query or channels, found none"),
        ({"channels": {"a": "b"}}, "expected query or channels, found both"),
        ({"query": None, "channels": {}}, "expected a query for each channel, found none"),
        ({"query": None, "channels": {"a": " "}}, "a query for each channel, found none 'a'"),
        ({"query": None, "channels": {"a": 1}}, "channels: expected a table of texts"),
        ({"every": "soon"}, "every: expected a duration above zero, such as"),
        ({"every": "1us"}, "every: expected whole milliseconds, found 1,000 ns"),
        ({"start": "0s"}, "start: expected a duration above zero, such as \"10s\", \"5m\" or "
         "\"1d\", found '0s'"),
        ({"by": ["a"], "without": ["a"]}, "expected a label in by or in without"),
        ({"user": "me"}, "expected user and password, found a user alone"),
        ({"headers": {"X-A": "é"}}, "headers: expected names and texts of HTTP headers, found 'X"),
        ({"ca_file": "/no/such.pem"}, "ca_file: expected a file of certificates"),
        ({"evry": "1m"}, "evry: expected an option, found an unknown one\nhint: did"),
        ({"tokn_file": "a"}, "hint: did you mean token_file?"),
    ],
    "source kafka": [
        ({"servers": ["kafka://k1:9092"]}, "servers: expected host:port, found 'kafka://k1:9092'"),
        ({"servers": ["k1"]}, "servers: expected host:port, found 'k1'"),
        ({"servers": ["k1:9092,"]}, "servers: expected host:port, found ''"),
        ({"servers": []}, "servers: expected a list of texts"),
        ({"user": "nn"}, "expected user and password together, found one of them"),
        ({"sasl": "GSSAPI"}, 'sasl: expected one of "PLAIN", "SCRAM-SHA-256"'),
        ({"tls": False, "ca_file": "ca.pem"}, "expected tls = true with ca_file"),
        ({"start": "now"}, "start: expected one of \"beginning\", \"end\", found 'now'"),
        ({"topics": ["^plant-("]}, "topics: expected a regular expression, found '^plant-('"),
        ({"topics": None}, "expected the option topics, found none"),
        ({"retries": 3}, "retries: expected an option"),
        ({"options": {"nonsense": "1"}}, 'found No such configuration property: "nonsense"'),
        ({"options": {"enable.auto.commit": True}}, "not set already, found enable.auto.commit"),
        ({"options": {"group.id": "x"}}, "not set already, found group.id"),
        ({"options": {"sasl.password": "pw-1"}}, "expected no secret in the configuration"),
        ({"options": {"ssl": {"key": {"pem": "pw-1"}}}}, ", found ssl.key.pem"),
        ({"options": {"client.rack": ["a"]}}, "options: expected a table of texts"),
        ({"options": "client.rack=a"}, "options: expected a table of texts"),
        ({"ca_file": "/no/such/file.pem"}, "expected settings that librdkafka takes, found "),
    ],
    "sink mqtt": [
        ({"topic": "a/{machine}"}, "topic: expected a topic with {stream}, {kind}, {item}, "
         "{status} and no other braces, + or #, found 'a/{machine}'"),
        ({"topic": "a/{stream}/{status}", "retain": True},
         "topic: expected no {status} beside retain, found it"),
        ({"retain": "yes"}, "retain: expected true or false, found 'yes'"),
        ({"topics": ["a"]}, "topics: expected an option, found an unknown one"),
        ({"version": 4}, 'version: expected one of "5", "3.1.1", found 4'),
    ],
    "source mqtt": [
        ({"host": None}, "expected the option host or url, found none"),
        ({"url": "mqtt://a"}, "expected url, or host and port, found both"),
        ({"port": 70000}, "port: expected a whole number of at least 1 and at most 65,535"),
        ({"host": None, "url": "http://a"}, "url: expected an address that begins with mqtt://, "
         "mqtts://, ws:// or wss://, found another"),
        ({"host": None, "url": "mqtt://me:pw-1@a"},
         "url: expected an address without user and password, found them"),
        ({"host": None, "url": "mqtt://a/path"}, "url: expected no path, found one"),
        ({"version": "3.1"}, "found '3.1'"),
        ({"password": "pw-1"}, "expected user beside the password, found none"),
        ({"key_file": "key.pem"}, "expected cert_file beside key_file, found none"),
        ({"ca_file": "none.pem"}, "ca_file: expected a file of certificates, found [Errno 2] No"),
        ({"cert_file": "none.pem"}, "cert_file: expected a certificate and its key, found [Errno"),
        ({"topics": None}, "expected the option topics, found none"),
        ({"topics": []}, "topics: expected a list of texts, found another list"),
        ({"retained": "all"}, 'retained: expected one of "ignore", "take", found'),
        ({"keep": "long"}, "keep: expected a duration above zero, such as"),
        ({"channel": "name"}, "channel: expected the option value beside it, found none"),
        ({"version": "3.1.1", "topics": OVERLAPPING}, "topics: expected filters of which one "
         "covers the other or that match no common topic, found 'a/+' and '+/b': the broker would "
         "send a message twice"),
        ({"topic": "a"}, "topic: expected an option, found an unknown one"),
    ],
    "source files": [
        ({"paths": None}, "expected the option paths, found none"),
        ({"by": "machine", "stream": "{name}"}, "expected stream or by, found both"),
        ({"stream": "{machine}"},
         "stream: expected a text with {name} and {folder}, found '{machine}'"),
        ({"start": "middle"}, "start: expected one of \"beginning\", \"end\", found 'middle'"),
        ({"format": "parquet"}, "format: expected csv or jsonl, found 'parquet'"),
        ({"encoding": "utf-16"},
         "encoding: expected one of 8 bits such as utf-8 or latin-1, found 'utf-16'"),
        ({"delimiter": "::"}, "delimiter: expected one character or tab"),
    ],
}
# fmt: on


@pytest.mark.parametrize("connector", CASES)
def test_options_that_cannot_work_are_named_and_no_secret_is_shown(connector: str) -> None:
    role, _, name = connector.rpartition(" ")
    kind, where = FINDERS[role](name), f"{role.rpartition(' ')[2]} a: "
    for changes, text in CASES[connector]:
        options = {**GIVEN[connector], **changes}
        with pytest.raises(ParameterError) as caught:
            kind("a", {key: value for key, value in options.items() if value is not None})
        message = str(caught.value)
        assert message.startswith(where) and text in message, (changes, message)
        assert "pw-1" not in message

"""Where samples come from and where verdicts go: sources, sinks, and how both are found by name.

`Source` and `Sink` are the classes to derive from, for the service also `AlertSink` and
`ScoreSink`; `newnormal.testing` checks what was derived.
"""

from typing import TYPE_CHECKING

from newnormal.lazy import lazy_names

if TYPE_CHECKING:
    from newnormal.arrivals.arrival import Arrival as Arrival
    from newnormal.io.decoders.base import Decoder as Decoder
    from newnormal.io.decoders.base import DecoderLimits as DecoderLimits
    from newnormal.io.decoders.base import Refusal as Refusal
    from newnormal.io.decoders.base import Reply as Reply
    from newnormal.io.options import Connector as Connector
    from newnormal.io.options import Options as Options
    from newnormal.io.registry import find_alert_sink as find_alert_sink
    from newnormal.io.registry import find_decoder as find_decoder
    from newnormal.io.registry import find_score_sink as find_score_sink
    from newnormal.io.registry import find_sink as find_sink
    from newnormal.io.registry import find_source as find_source
    from newnormal.io.registry import name_of as name_of
    from newnormal.io.sinks.alerts import Alert as Alert
    from newnormal.io.sinks.alerts import AlertRefusedError as AlertRefusedError
    from newnormal.io.sinks.alerts import AlertSink as AlertSink
    from newnormal.io.sinks.alerts import SinkDownError as SinkDownError
    from newnormal.io.sinks.base import Sink as Sink
    from newnormal.io.sinks.base import SinkOptions as SinkOptions
    from newnormal.io.sinks.scores import ScoreBatch as ScoreBatch
    from newnormal.io.sinks.scores import ScoreSink as ScoreSink
    from newnormal.io.sinks.scores import ScoresRefusedError as ScoresRefusedError
    from newnormal.io.sources.base import Source as Source

__getattr__, __dir__ = lazy_names(__name__)

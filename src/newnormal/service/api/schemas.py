"""What requests and answers hold, for the OpenAPI document."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, WithJsonSchema

# What `times.nanoseconds` reads.
_Time = Annotated[Any, WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "number"}]})]
_Sample = Annotated[int, Field(ge=0)]
_MOST = 2_000  # characters of a comment


class ProblemFacts(BaseModel):
    """A request that could not be answered."""

    error: str = Field(description="what was expected and what was found")
    hint: str = Field(description="what to do about it")


class Alive(BaseModel):
    """The process answers, or is ready."""

    status: str


class Done(BaseModel):
    """Something was done."""

    done: bool


class StreamBrief(BaseModel):
    """A stream as lists have it."""

    id: int
    name: str
    state: str = Field(description="collecting, fitting, live or failed")
    channel_count: int
    samples: int
    needed: int = Field(description="samples of history that the first fit waits for")
    period: float | None = Field(description="seconds between two samples")
    newest: str | None = Field(description="the time of the newest sample")
    ratio: float | None = Field(description="score over threshold of the newest sample")
    distance: float | None = Field(description="from the accepted normal; 1 is the limit")
    sparkline: list[float | None] = Field(description="highest ratios of stretches, oldest first")
    attention: str = Field(description="alarm, change, silence, channels, failed or nothing")
    sentence: str
    item: str | None = Field(description="the key of the item that the sentence is about")
    item_state: str = Field(description="open, closed, pending, accepted, rejected or reverted")
    last_alarm: str | None
    generation: int = Field(description="how many models it has had")
    problem: str = Field(description="why the last fit failed")


class StreamFacts(StreamBrief):
    """A stream."""

    channels: list[str]
    counts: dict[str, int] = Field(
        description="samples that were dropped: late, duplicate, jumped, replaced; "
        "put in order: out_of_order; alarms, changes"
    )


class StreamPage(BaseModel):
    """Some streams."""

    items: list[StreamBrief]
    cursor: str | None = Field(description="where the next ones begin; null: there are no more")
    total: int = Field(description="how many fit what was asked for")
    streams: int = Field(description="how many there are")
    counts: dict[str, int] = Field(description="how many are in each state or need attention")


class SeriesColumns(BaseModel):
    """A stretch of a stream."""

    x: list[float] = Field(description="seconds since 1970")
    columns: dict[str, list[float | None]] = Field(
        description="score, threshold, ratio, and low, high, expected, least, most, ratio of each "
        "channel, as low:0, by its position"
    )
    per: int = Field(description="samples a point stands for")
    exact: bool
    anomalous: list[int] = Field(description="positions of points with an anomalous sample")


class PictureFacts(BaseModel):
    """What a picture shows beside the numbers."""

    axis: dict[str, Any]
    stream: dict[str, Any] = Field(description="channels, alarms and changes as in a report")


class ModelFacts(BaseModel):
    """A fitted model."""

    generation: int
    fitted: str | None = None
    first: int | None = Field(None, description="the number of the first sample it was fitted on")
    last: int | None = None
    channels: list[str] = []
    reason: str = ""


class ModelList(BaseModel):
    """The models that a stream has had."""

    items: list[ModelFacts]
    generation: int = Field(description="of the one that is used")


class Refit(BaseModel):
    """Which samples to fit; without any, the newest."""

    first: _Sample | None = None
    last: _Sample | None = None


class ItemFacts(BaseModel):
    """An alarm, a change, an incident, a silence, or other channels."""

    key: str
    kind: str
    stream: int | None
    stream_name: str | None
    generation: int
    number: int
    state: str = Field(description="open, closed, pending, accepted, rejected or reverted")
    open: bool
    opened: str
    updated: str
    ended: str | None
    ratio: float | None
    sentence: str
    body: dict[str, Any] = Field(description="evidence and all else, by kind")


class ItemList(BaseModel):
    """Some items."""

    items: list[ItemFacts]
    cursor: str | None


class CommentFacts(BaseModel):
    """What a person wrote."""

    time: str
    who: str
    text: str


class ItemDetail(ItemFacts):
    """An item with what belongs to it."""

    comments: list[CommentFacts]
    related: list[ItemFacts]


class Decision(BaseModel):
    """Why."""

    comment: Annotated[str, StringConstraints(strip_whitespace=True, max_length=_MOST)] = ""


class NewComment(BaseModel):
    """A comment to write."""

    text: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=_MOST)]


class Decided(BaseModel):
    """The item as it is now."""

    item: ItemFacts | None


class EventFacts(BaseModel):
    """Something that happened."""

    id: str
    kind: str
    time: str
    stream: int | None
    item: str | None
    body: dict[str, Any]


class EventList(BaseModel):
    """Some events."""

    items: list[EventFacts]
    cursor: str | None = Field(description="the id of the last one: give it as after")


class Pushed(BaseModel):
    """Samples that are durable."""

    samples: int
    streams: int
    position: int = Field(description="of the log")


class Uploaded(Pushed):
    """History that is durable."""

    found: list[str] = Field(description="what was found out about the file")


class WindowFacts(BaseModel):
    """A maintenance window: alerts of items that open in it are not sent."""

    id: str
    begin: str
    end: str
    streams: str = Field(description="a pattern of names, such as press-*")
    reason: str
    who: str
    active: bool


class NewWindow(BaseModel):
    """A maintenance window to make."""

    begin: _Time = Field(None, description="ISO 8601 or Unix time; none: now")
    end: _Time
    streams: str = "*"
    reason: str = ""


class WindowList(BaseModel):
    """All maintenance windows."""

    items: list[WindowFacts]


class Alerts(BaseModel):
    """How the sinks are."""

    sinks: dict[str, dict[str, Any]] = Field(description="waiting, delivered, failing, oldest")


class HealthFacts(BaseModel):
    """How everything is."""

    status: str = Field(description="ok, degraded, starting or stopping")
    parts: dict[str, Any]


class Settings(BaseModel):
    """The configuration without secrets."""

    version: str


class Login(BaseModel):
    """A token."""

    model_config = ConfigDict(hide_input_in_errors=True)

    token: Annotated[str, StringConstraints(min_length=1, max_length=1_000)]


class SessionFacts(BaseModel):
    """Who uses the page."""

    who: str | None
    role: str | None
    csrf: str | None = Field(description="to be sent as X-CSRF-Token with every change")
    login: bool = Field(description="whether a login is needed")


def gives(model: type[BaseModel], status: int = 200) -> dict[int | str, dict[str, Any]]:
    """Return what a route's answers are."""
    return {status: {"model": model}, "4XX": {"model": ProblemFacts}}


def takes(model: type[BaseModel], *, required: bool = False) -> dict[str, Any]:
    """Return what a route's body is."""
    schema = model.model_json_schema()
    content = {"application/json": {"schema": schema}}
    return {"requestBody": {"required": required, "content": content}}

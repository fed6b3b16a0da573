"""Look at data before it is fitted: what there is, what is suspicious, what `fit` would do."""

from newnormal.checks.checking import Check as Check
from newnormal.checks.checking import StreamsSummary as StreamsSummary
from newnormal.checks.checking import check as check
from newnormal.checks.checking import check_streams as check_streams
from newnormal.checks.checking import check_table as check_table
from newnormal.checks.checking import summary_of as summary_of
from newnormal.checks.facts import ChannelFacts as ChannelFacts
from newnormal.checks.facts import Gap as Gap
from newnormal.checks.facts import InputFacts as InputFacts
from newnormal.checks.facts import Sampling as Sampling
from newnormal.checks.findings import LEVELS as LEVELS
from newnormal.checks.findings import Finding as Finding
from newnormal.checks.plan import FitPlan as FitPlan
from newnormal.checks.plan import Need as Need

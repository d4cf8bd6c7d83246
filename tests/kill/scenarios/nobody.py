"""Messages that no rank sends or receives: the job ends with a line for each rank that waits."""

import re

from harness import Kill, require, scenario
from processes import standing
from scenarios.endings import messages

OPERATIONS = {"recv": "Recv", "any": "Recv", "wait": "Wait", "probe": "Probe", "ssend": "Ssend"}


def awaited(how, peer):
    if how == "ssend":
        return f"a receive in rank {peer} that takes its message with tag 7"
    return f"a message from {'any rank' if how == 'any' else f'rank {peer}'} with tag 7"


@scenario()
def nobody(t):
    """Ranks wait in every way for a message that is never sent, also in a second incarnation."""
    n = 3
    for how, operation in OPERATIONS.items():
        for kills in [[], [Kill(n - 1, 2)]] if how == "recv" else [[]]:
            result = t.run(n, "nobody", how, kills=kills)
            require(result.code == 1, f"exit code {result.code}", result)
            require(messages(result)[-1].startswith("rejoin: deadlock:"), "no deadlock", result)
            line = re.search(r"line (\d+)", result.out)[1]
            for rank in range(n):
                what = awaited(how, n - 1 if rank == 0 else 0)
                said = rf"in {operation} #\d+ at \S*nobody\.c:{line}:\S*, waits for {what}"
                where = standing(result.err).get(rank, ("", ""))[0]
                require(re.match(said, where), f"rank {rank}, {how}: no '{said}'", result)

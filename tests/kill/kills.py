"""Deaths that ftrun --kill orders."""

# The causes by which ftrun reports a death by SIGKILL. The second one is for a rank whose parent is a
# shell, which alone knows the signal.
KILLED = ("signal 9 (Killed)", "a cause that only its parent process knows")
MOMENTS = ("before", "inside", "after")


class Kill:
    """One ftrun --kill RANK@POINT.MOMENT#INCARNATION; `point`: an ordinal, "init" or "finalize"."""

    def __init__(self, rank, point, moment="inside", incarnation=0):
        self.rank, self.point, self.moment, self.incarnation = rank, point, moment, incarnation

    def __str__(self):
        return f"{self.rank}@{self.point}.{self.moment}#{self.incarnation}"

    def is_death(self, death):
        """Returns whether an event of the log is the death that this kill orders."""
        if (death["rank"], death["incarnation"]) != (self.rank, self.incarnation):
            return False
        ordinal = death["position"]["ordinal"]
        if self.point == "init":
            return ordinal == 0
        if self.point == "finalize":
            return ordinal > 0
        return ordinal == self.point - (self.moment == "before")

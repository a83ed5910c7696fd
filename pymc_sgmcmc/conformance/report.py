"""What checks of a sampler found."""

from dataclasses import dataclass

from pymc_sgmcmc.results.section import wrapped

__all__ = ["FAILED", "NOT_APPLICABLE", "PASSED", "Failed", "Finding", "NotApplicable",
           "SamplerReport"]  # fmt: skip

PASSED, FAILED, NOT_APPLICABLE = "passed", "failed", "not applicable"


class Failed(Exception):
    """A check saw something wrong: the message says what, and what to do."""


class NotApplicable(Exception):
    """A check has nothing to look at: the message says why."""


@dataclass(frozen=True)
class Finding:
    """What one check found.

    Attributes
    ----------
    check : str
        Its name.
    verdict : {"passed", "failed", "not applicable"}
    seen : str
        What it saw; if it failed, what to do.
    """

    check: str
    verdict: str
    seen: str

    def lines(self, width: int) -> list[str]:
        """Return the lines of a report; `width`: of the longest name of a check."""
        return wrapped(self.seen, f"{self.check:<{width}}  {self.verdict:<{len(NOT_APPLICABLE)}}  ")


@dataclass(frozen=True)
class SamplerReport:
    """What `check_sampler` found, to be printed.

    Attributes
    ----------
    sampler : str
        The name of the sampler.
    findings : tuple of Finding
        One for each check, in order: its ``check``, ``verdict`` and ``seen``.
    """

    sampler: str
    findings: tuple[Finding, ...]

    @property
    def failed(self) -> tuple[str, ...]:
        """Names of the checks that failed."""
        return tuple(one.check for one in self.findings if one.verdict == FAILED)

    @property
    def passed(self) -> bool:
        """Whether no check failed."""
        return not self.failed

    def __str__(self) -> str:
        total = {verdict: 0 for verdict in (PASSED, FAILED, NOT_APPLICABLE)}
        for one in self.findings:
            total[one.verdict] += 1
        counts = ", ".join(f"{count} {verdict}" for verdict, count in total.items() if count)
        width = max((len(one.check) for one in self.findings), default=0)
        lines = [line for one in self.findings for line in one.lines(width)]
        return "\n".join([f"Check of the sampler {self.sampler}: {counts}", "", *lines])

"""What makes timings scatter or drift on this machine, and what would quieten it."""

from __future__ import annotations

from collections.abc import Iterator

from suite.doctor.advice import Advice, Severity, advise
from suite.doctor.survey import Survey
from suite.doctor.words import counted, gib, percent
from suite.fingerprint.files import format_cpulist

BUSY_OTHERS_CPUS = 0.1
# Above this share a hypervisor's neighbours show in the timings; the same threshold as in reports.
STEAL_DOUBTFUL_SHARE = 0.01
DEEP_IDLE_US = 50
SWAP_DOUBTFUL_BYTES = 64 << 20
# Timers that are read in tens of nanoseconds, without leaving the process.
FAST_CLOCKSOURCES = frozenset(
    {"tsc", "kvm-clock", "arch_sys_counter", "hyperv_clocksource_tsc_page", "timebase", "tod"}
)


def others_run(survey: Survey) -> Iterator[Advice]:
    """Other work at this very moment."""
    load = survey.load
    if load.others_cpus is None or load.others_cpus < BUSY_OTHERS_CPUS:
        return
    names = ", ".join(f"{name} {cpus:.2g}" for name, cpus in load.named)
    yield advise(
        "others-run",
        "doubtful",
        f"Other work uses {load.others_cpus:.2g} of {counted(len(survey.topology.online), 'CPU')} now.",
        f"/proc/stat over {load.window_s:.1f} s"
        + (f", load average {load.load_1min:.2g}" if load.load_1min is not None else ""),
        f"the busiest that can be seen, in CPUs: {names}" if names else "none of it can be seen from here",
        advice="end it, or wait until it is done",
    )


def cpu_time_is_stolen(survey: Survey) -> Iterator[Advice]:
    """Steal: the hypervisor ran somebody else on the processor while this machine wanted it."""
    load = survey.load
    now, ever = load.steal_share or 0.0, load.steal_share_since_boot or 0.0
    if max(now, ever) < STEAL_DOUBTFUL_SHARE:
        return
    yield advise(
        "steal",
        "doubtful",
        f"The hypervisor takes CPU time away for others: {percent(now)} now, {percent(ever)} since boot.",
        f"/proc/stat steal, over {load.window_s:.1f} s and since boot",
        advice="take a machine with dedicated CPUs, or more processes (PROCESSES) at a quieter time",
    )


def swapping(survey: Survey) -> Iterator[Advice]:
    """Memory on disk: a page that has to come back costs milliseconds."""
    used, total = survey.memory.swap_used_bytes, survey.value("memory", "swap_total_bytes")
    if used > SWAP_DOUBTFUL_BYTES:
        yield advise(
            "swap-used",
            "doubtful",
            f"{gib(used)} of swap are in use: pages may come from disk.",
            "/proc/meminfo",
            advice="swapoff -a",
        )
    elif isinstance(total, int) and total > 0:
        yield advise(
            "swap",
            "note",
            f"Swap is on ({gib(total)}) and hardly used.",
            "/proc/meminfo SwapTotal",
            advice="swapoff -a, to be sure",
        )


def governor(survey: Survey) -> Iterator[Advice]:
    """A governor that follows the load raises the clock only some time after work begins."""
    slow = [name for name in survey.distinct("cpu", "governor") if name != "performance"]
    drivers = survey.distinct("cpu", "frequency_driver")
    if slow:
        yield advise(
            "governor",
            "doubtful",
            f"The frequency governor is {' and '.join(slow)}, not performance: the clock follows the load.",
            f"scaling_governor{f', driver {drivers[0]}' if drivers else ''}",
            advice="as root: cpupower frequency-set --governor performance",
        )
    saving = [
        name for name in survey.distinct("cpu", "energy_performance_preference") if name not in ("performance", "0")
    ]
    if saving:
        yield advise(
            "energy-preference",
            "note",
            f"The processor is told to prefer {' and '.join(saving)} over performance.",
            "energy_performance_preference",
            advice="as root: echo performance | tee /sys/devices/system/cpu/cpu*/cpufreq/energy_performance_preference",
        )


def turbo(survey: Survey) -> Iterator[Advice]:
    """Boosted clocks depend on temperature, and on how many cores are busy."""
    if survey.value("cpu", "boost") is True:
        intel = "intel_pstate" in survey.fact("cpu", "boost").source
        switch = (
            "echo 1 > /sys/devices/system/cpu/intel_pstate/no_turbo"
            if intel
            else "echo 0 > /sys/devices/system/cpu/cpufreq/boost"
        )
        yield advise(
            "turbo",
            "note",
            "Turbo is on: the clock depends on heat and on how many cores are busy, and may fall during a run.",
            survey.fact("cpu", "boost").source,
            advice=f"for steady clocks, as root: {switch}",
        )


def thermal(survey: Survey) -> Iterator[Advice]:
    """The processor slowed itself down since boot."""
    counts = survey.value("load", "thermal_throttles")
    total = max((int(count) for count in counts.values()), default=0) if isinstance(counts, dict) else 0
    if total > 0:
        yield advise(
            "thermal-throttled",
            "doubtful",
            f"The processor slowed itself down because of heat {counted(total, 'time')} since boot.",
            survey.fact("load", "thermal_throttles").source,
            advice="see to its cooling, or switch turbo off",
        )


def virtual_machine(survey: Survey) -> Iterator[Advice]:
    """A guest shares a host that it cannot see."""
    name = survey.value("cpu", "hypervisor")
    if name not in (None, "none"):
        yield advise(
            "virtual-machine",
            "note",
            f"This is a virtual machine ({name}): neighbours on its host share caches, memory bandwidth and power, and cannot "
            "be seen from here.",
            survey.fact("cpu", "hypervisor").source,
            advice="take intervals and noise floor at their word; for the last percent, use bare metal",
        )


def timer(survey: Survey) -> Iterator[Advice]:
    """A slow clock source makes every reading cost microseconds."""
    name = survey.value("system", "clocksource")
    if isinstance(name, str) and name not in FAST_CLOCKSOURCES:
        yield advise(
            "slow-timer",
            "doubtful",
            f"The clock source is {name}: each reading of the time is a slow system call.",
            survey.fact("system", "clocksource").source,
            advice="boot with tsc=reliable where the processor's TSC is sound; see `dmesg | grep -i tsc`",
        )


def isolated(survey: Survey) -> Iterator[Advice]:
    """The scheduler balances nothing on isolated CPUs: unpinned threads all stay where the first one was."""
    numbers = survey.value("cpu", "isolated")
    used = sorted(set(numbers) & set(survey.placement.cores)) if isinstance(numbers, list) else []
    if used and not survey.launch.prefix:
        yield advise(
            "isolated-unpinned",
            "doubtful",
            f"CPUs {format_cpulist(used)} are isolated (isolcpus) and threads are not pinned: they may all run on one of them.",
            "/sys/devices/system/cpu/isolated",
            advice="install numactl, or name CORES that are not isolated",
        )


def balancing(survey: Survey) -> Iterator[Advice]:
    """Automatic NUMA balancing unmaps pages to see who uses them; memory that is bound is left alone."""
    several = len(survey.topology.nodes) > 1
    bound = "-m" in survey.launch.prefix
    if several and survey.value("system", "numa_balancing") == 1:
        severity: Severity = "note" if bound else "doubtful"
        yield advise(
            "numa-balancing",
            severity,
            "Automatic NUMA balancing is on"
            + (
                ", but leaves the workers' bound memory alone."
                if bound
                else ": the kernel moves pages between nodes during a run."
            ),
            "/proc/sys/kernel/numa_balancing",
            advice="" if bound else "bind memory (numactl), or as root: sysctl kernel.numa_balancing=0",
        )


def huge_pages(survey: Survey) -> Iterator[Advice]:
    """With huge pages for all, who gets one depends on how fragmented memory is."""
    if survey.value("memory", "transparent_huge_pages") == "always":
        yield advise(
            "huge-pages",
            "note",
            "Transparent huge pages are always on: which buffers get them depends on how fragmented memory is, from run to run.",
            survey.fact("memory", "transparent_huge_pages").source,
            advice="compare only runs with the same setting; as root: echo madvise > /sys/kernel/mm/transparent_hugepage/enabled",
        )


def address_space(survey: Survey) -> Iterator[Advice]:
    """Processes are the replicates: with one layout for all of them, intervals leave out what layouts do."""
    if survey.value("system", "address_space_randomisation") == 0:
        yield advise(
            "layout-fixed",
            "note",
            "Address space randomisation is off: all processes share one memory layout, so intervals leave out what a layout does.",
            "/proc/sys/kernel/randomize_va_space",
            advice="as root: sysctl kernel.randomize_va_space=2",
        )


def idle_states(survey: Survey) -> Iterator[Advice]:
    """Deep idle states take up to hundreds of microseconds to leave, which short calls after a pause feel."""
    states = survey.value("cpu", "idle_states")
    rows = (
        [row for row in states if isinstance(row, dict) and not row.get("disabled_on")]
        if isinstance(states, list)
        else []
    )
    slowest = max(rows, key=lambda row: row.get("exit_latency_us", 0), default={})
    if slowest.get("exit_latency_us", 0) >= DEEP_IDLE_US:
        yield advise(
            "idle-states",
            "note",
            f"Idle cores take up to {slowest['exit_latency_us']} µs to wake up (state {slowest.get('name')}): the first call after a "
            "pause pays for it.",
            survey.fact("cpu", "idle_states").source,
            advice="steady state is hardly touched; for short calls, as root: cpupower idle-set --disable-by-latency 10",
        )


CHECKS = (
    others_run,
    cpu_time_is_stolen,
    swapping,
    governor,
    thermal,
    timer,
    isolated,
    balancing,
    virtual_machine,
    turbo,
    huge_pages,
    address_space,
    idle_states,
)

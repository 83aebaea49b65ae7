"""The kernel's command line, with everything that could name a machine or a person taken out."""

from __future__ import annotations

import re

# Kernel options whose values are kept: they steer performance and cannot name a machine or a person.
KEPT_OPTIONS = re.compile(
    r"(isolcpus|nohz|nohz_full|rcu_nocbs|rcu_nocb_poll|irqaffinity|maxcpus|nr_cpus|possible_cpus|mem|nosmt|smt|numa|numa_balancing"
    r"|clocksource|tsc|hpet|idle|preempt|threadirqs|nosoftlockup|highres|lapic_timer_c2_ok"
    r"|mitigations|pti|kpti|nopti|spectre_v2|spectre_v2_user|spec_store_bypass_disable|l1tf|mds|srbds|mmio_stale_data|retbleed"
    r"|tsx|tsx_async_abort|spec_rstack_overflow|gather_data_sampling|reg_file_data_sampling|indirect_target_selection|tsa|vmscape"
    r"|intel_pstate|amd_pstate|cpufreq\.\w+|intel_idle\.\w+|processor\.\w+|cpuidle\.\w+|cpuidle_haltpoll\.\w+|haltpoll\.\w+"
    r"|intel_iommu|amd_iommu|iommu|iommu\.\w+|transparent_hugepage|transparent_hugepage_shmem|thp_anon|hugepages|hugepagesz"
    r"|default_hugepagesz|hugetlb_cma|init_on_alloc|init_on_free|page_alloc\.\w+|slub_debug|page_reporting\.\w+|zswap\.\w+"
    r"|audit|selinux|apparmor|lsm|psi|mce|nmi_watchdog|watchdog|skew_tick|swiotlb|random\.trust_cpu|efi|pci|pcie_aspm"
    r"|cgroup_no_v1|cgroup_enable|cgroup_disable|systemd\.unified_cgroup_hierarchy"
    r"|rcupdate\.\w+|rcutree\.\w+|workqueue\.\w+|kvm[-_\w]*\.\w+|sched_\w+|relax_domain_level)"
)
# What an identifier looks like, wherever it stands: UUID, MAC or IPv4 address, 12 or more hexadecimal digits.
IDENTIFIER = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{4}-|(?:[0-9a-f]{2}[:-]){5}[0-9a-f]{2}|\d+\.\d+\.\d+\.\d+|[0-9a-f]{12}", re.IGNORECASE
)
REMOVED = "<removed>"
NOTE = "values that could name the machine are removed"


def redact(text: str) -> str:
    """The kernel's options with the values of all but performance options, and anything like an identifier, taken out.

    What follows `--` goes to init and is dropped as a whole.
    """
    shown = []
    for token in text.split():
        if token == "--":
            shown.append(f"-- {REMOVED}")
            break
        name, equals, _ = token.partition("=")
        named = REMOVED if IDENTIFIER.search(name) or not equals else name
        harmless = KEPT_OPTIONS.fullmatch(name) if equals else re.fullmatch(r"[\w.-]{1,32}", token)
        if harmless and not IDENTIFIER.search(token):
            shown.append(token)
        else:
            shown.append(f"{named}={REMOVED}" if equals else named)
    return " ".join(shown)

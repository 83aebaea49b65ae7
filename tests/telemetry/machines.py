"""What real machines say in the files that telemetry reads, cut to a few CPUs; written as {path: text}."""

from __future__ import annotations

_THROTTLE = "/sys/devices/system/cpu/cpu{}/thermal_throttle/{}_throttle_count"

# Two sockets of a Xeon E5-2680 with turbo, bare metal, Linux 3.13: CPUs 0 and 1 of socket 0, CPU 8 of socket 1.
XEON: dict[str, str] = {
    "/proc/stat": "cpu  606049050 299207 10735939 186412600 510603 6 46975 0 0 0\n"
    "cpu0 36604340 209 700700 12804567 98484 0 30784 0 0 0\n"
    "cpu1 43692429 353 681086 5835748 42455 0 505 0 0 0\n"
    "cpu8 40006349 19222 640013 9512345 30122 1 402 0 0 0\n"
    "intr 4096 123 0 0\nctxt 6089541237\nbtime 1392044155\n",
    "/proc/loadavg": "13.05 12.70 9.12 14/562 30111",
    "/proc/cpuinfo": "processor\t: 0\nmodel name\t: Intel(R) Xeon(R) CPU E5-2680 0 @ 2.70GHz\ncpu MHz\t\t: 2701.000\n"
    "flags\t\t: fpu vme aperfmperf avx\n\nprocessor\t: 1\ncpu MHz\t\t: 2701.000\nflags\t\t: fpu vme aperfmperf avx\n",
    "/sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq": "2701000",
    "/sys/devices/system/cpu/cpu1/cpufreq/scaling_cur_freq": "3094112",
    "/sys/devices/system/cpu/cpu8/cpufreq/scaling_cur_freq": "1200000",
    "/sys/devices/system/cpu/cpu0/topology/physical_package_id": "0",
    "/sys/devices/system/cpu/cpu1/topology/physical_package_id": "0",
    "/sys/devices/system/cpu/cpu8/topology/physical_package_id": "1",
    _THROTTLE.format(0, "core"): "3",
    _THROTTLE.format(1, "core"): "0",
    _THROTTLE.format(8, "core"): "1",
    _THROTTLE.format(0, "package"): "7",
    _THROTTLE.format(1, "package"): "7",
    _THROTTLE.format(8, "package"): "2",
    "/sys/class/hwmon/hwmon0/name": "acpitz",
    "/sys/class/hwmon/hwmon0/temp1_input": "8300",
    "/sys/class/hwmon/hwmon1/name": "coretemp",
    "/sys/class/hwmon/hwmon1/temp1_label": "Physical id 0",
    "/sys/class/hwmon/hwmon1/temp1_input": "64000",
    "/sys/class/hwmon/hwmon1/temp2_label": "Core 0",
    "/sys/class/hwmon/hwmon1/temp2_input": "66000",
    "/sys/class/hwmon/hwmon2/name": "coretemp",
    "/sys/class/hwmon/hwmon2/temp1_label": "Physical id 1",
    "/sys/class/hwmon/hwmon2/temp1_input": "58000",
    "/sys/class/powercap/intel-rapl:0/name": "package-0",
    "/sys/class/powercap/intel-rapl:0/energy_uj": "65532999000",
    "/sys/class/powercap/intel-rapl:0/max_energy_range_uj": "65532999999",
    "/sys/class/powercap/intel-rapl:0:0/name": "dram",
    "/sys/class/powercap/intel-rapl:0:0/energy_uj": "1000",
    "/sys/class/powercap/intel-rapl:0:0/max_energy_range_uj": "65532999999",
    "/sys/class/powercap/intel-rapl-mmio:0/name": "package-0",
    "/sys/class/powercap/intel-rapl-mmio:0/energy_uj": "5",
}

# A guest of two CPUs: AMD EPYC under a hypervisor, Linux 6.18, groups of version 1 with the empty hierarchy of version 2 beside them.
GUEST: dict[str, str] = {
    "/proc/stat": "cpu  25958 0 6576 97837 1411 0 594 814 0 0\ncpu0 2951 0 1650 61262 213 0 113 419 0 0\n"
    "cpu1 23006 0 4925 36575 1197 0 481 395 0 0\nintr 480060 0 0\nctxt 408128\nbtime 1796000000\n",
    "/proc/loadavg": "0.36 0.48 0.34 2/87 10137",
    "/proc/cpuinfo": "processor\t: 0\nmodel name\t: AMD EPYC\ncpu MHz\t\t: 2445.404\nflags\t\t: fpu hypervisor lahf_lm\n\n"
    "processor\t: 1\nmodel name\t: AMD EPYC\ncpu MHz\t\t: 2445.404\nflags\t\t: fpu hypervisor lahf_lm\n",
    "/proc/meminfo": "MemTotal:       24683656 kB\nMemFree:        22975912 kB\nMemAvailable:   24256888 kB\n",
    "/proc/vmstat": "nr_free_pages 5743978\npswpin 3\npswpout 0\npgfault 2302717\npgmajfault 1199\n",
    "/proc/pressure/cpu": "some avg10=3.40 avg60=1.47 avg300=0.86 total=10113231\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0",
    "/proc/pressure/memory": "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0",
    "/proc/pressure/io": "some avg10=1.48 avg60=0.33 avg300=0.82 total=11422915\nfull avg10=1.48 avg60=0.33 avg300=0.78 total=10887913",
    "/proc/mounts": "cgroup /sys/fs/cgroup/cpu cgroup rw,relatime,cpu 0 0\ncgroup2 /sys/fs/cgroup/unified cgroup2 rw,relatime 0 0",
    "/proc/self/cgroup": "1:cpu:/\n0::/",
    "/sys/fs/cgroup/cpu/cpu.stat": "nr_periods 0\nnr_throttled 0\nthrottled_time 0\nnr_bursts 0\nburst_time 0",
    "/sys/fs/cgroup/unified/cpu.stat": "usage_usec 425604270\nuser_usec 320281883\nsystem_usec 105322387\nnice_usec 0",
    "/sys/fs/cgroup/unified/memory.pressure": "some avg10=0.00 avg60=0.00 avg300=0.00 total=12\n"
    "full avg10=0.00 avg60=0.00 avg300=0.00 total=0",
}

# Half a CPU for a container, as Docker gives it: version 1 (the host's path does not exist below the mount), and version 2.
CONTAINER_1: dict[str, str] = {
    "/proc/mounts": "cgroup /sys/fs/cgroup/cpu,cpuacct cgroup ro,nosuid,cpu,cpuacct 0 0",
    "/proc/self/cgroup": "4:cpu,cpuacct:/docker/3f1c",
    "/sys/fs/cgroup/cpu,cpuacct/cpu.stat": "nr_periods 1203\nnr_throttled 1187\nthrottled_time 58112334455",
}
CONTAINER_2: dict[str, str] = {
    "/proc/mounts": "cgroup /sys/fs/cgroup cgroup2 ro,nosuid,nodev,noexec,relatime 0 0",
    "/proc/self/cgroup": "0::/",
    "/sys/fs/cgroup/cpu.stat": "usage_usec 61012345\nuser_usec 58000000\nsystem_usec 3012345\ncore_sched.force_idle_usec 0\n"
    "nr_periods 1203\nnr_throttled 1187\nthrottled_usec 58112334\nnr_bursts 0\nburst_usec 0",
    "/sys/fs/cgroup/cpu.pressure": "some avg10=48.11 avg60=20.00 avg300=8.01 total=58200111\n"
    "full avg10=47.99 avg60=19.00 avg300=7.90 total=58112334",
}

SCHED = """python (6442, #threads: 3)
-------------------------------------------------------------------
se.exec_start                                :        662927.129730
se.sum_exec_runtime                          :            93.118201
se.nr_migrations                             :                   17
nr_switches                                  :                  130
nr_voluntary_switches                        :                  110
nr_involuntary_switches                      :                   20
policy                                       :                    0
mm->numa_scan_seq                            :                    0
"""
STATUS = (
    "Name:\tpython\nState:\tR (running)\nThreads:\t3\nvoluntary_ctxt_switches:\t8\nnonvoluntary_ctxt_switches:\t5\n"
)


def process_files(
    pid: int, threads: dict[int, dict[str, str]], *, name: str = "python", ticks: int = 0, pages: int = 0
) -> dict[str, str]:
    """/proc files of a process: `threads[tid]` holds the texts of its task folder by file name."""
    fields = ["S", "1", *["0"] * 9, str(ticks), "0", "0", "0", "20", "0", str(len(threads)), "0", "0", "0", str(pages)]
    files = {f"/proc/{pid}/stat": f"{pid} ({name}) {' '.join(fields)}"}
    for tid, texts in threads.items():
        files |= {f"/proc/{pid}/task/{tid}/{file}": text for file, text in ({"children": ""} | texts).items()}
    return files

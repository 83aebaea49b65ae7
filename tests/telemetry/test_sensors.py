from __future__ import annotations

from pathlib import Path

import pytest

from suite.telemetry import kernel
from suite.telemetry.sensors import Clocks, Energy, HeatCounters, Temperatures
from tests.fingerprint.trees import write_tree
from tests.telemetry.machines import GUEST, XEON


def test_the_driver_tells_the_clock_of_each_measured_cpu(tmp_path: Path) -> None:
    clocks = Clocks(write_tree(tmp_path, XEON), [0, 1])
    assert (clocks.source, clocks.reason) == ("cpufreq", "")
    assert clocks.read(constant=False) == [2701.0, 3094.1]
    write_tree(tmp_path, {"/sys/devices/system/cpu/cpu1/cpufreq/scaling_cur_freq": "1200000"})
    assert clocks.read(constant=False) == [2701.0, 1200.0]


def test_a_cpu_that_goes_offline_leaves_a_gap(tmp_path: Path) -> None:
    clocks = Clocks(write_tree(tmp_path, XEON), [0, 1, 3])
    assert clocks.read(constant=False) == [2701.0, 3094.1, 0.0]


def test_without_a_driver_cpuinfo_is_live_where_the_processor_counts_cycles(tmp_path: Path) -> None:
    clocks = Clocks(write_tree(tmp_path, {"/proc/cpuinfo": XEON["/proc/cpuinfo"]}), [1])
    assert (clocks.source, clocks.read(constant=False)) == ("cpuinfo", [2701.0])


def test_a_guests_clock_is_marked_as_the_hypervisors_and_read_only_when_asked_for(tmp_path: Path) -> None:
    clocks = Clocks(write_tree(tmp_path, GUEST), [1])
    assert clocks.source == "hypervisor"
    assert clocks.reason.startswith("virtualised: ")
    assert (clocks.read(constant=False), clocks.read(constant=True)) == ([], [2445.404])


def test_a_clock_of_a_machine_without_driver_and_counters_is_nominal(tmp_path: Path) -> None:
    clocks = Clocks(write_tree(tmp_path, {"/proc/cpuinfo": "processor\t: 0\ncpu MHz\t\t: 2593.498\nflags\t: fpu"}), [0])
    assert clocks.source == "nominal"


def test_no_clock_at_all_is_absent(tmp_path: Path) -> None:
    clocks = Clocks(write_tree(tmp_path, {"/proc/cpuinfo": "processor\t: 0\nBogoMIPS\t: 50.00"}), [0])
    assert (clocks.source, clocks.read(constant=True)) == (None, [])
    assert clocks.reason.startswith("absent: ")


def test_heat_is_counted_once_a_package(tmp_path: Path) -> None:
    root = write_tree(tmp_path, XEON)
    assert HeatCounters(root, [0, 1]).read() == (3, 7)
    assert HeatCounters(root, [0, 1, 8]).read() == (4, 9)


def test_a_machine_without_heat_counters_says_so(tmp_path: Path) -> None:
    counters = HeatCounters(tmp_path, [0])
    assert counters.read() == (None, None)
    assert counters.reason.startswith("absent: ")


def test_only_packages_sensors_are_read(tmp_path: Path) -> None:
    assert Temperatures(write_tree(tmp_path, XEON)).read() == {
        "coretemp Physical id 0": 64.0,
        "coretemp Physical id 1": 58.0,
    }


def test_the_die_comes_before_what_the_fan_goes_by(tmp_path: Path) -> None:
    folder = "/sys/class/hwmon/hwmon0"
    fan = {f"{folder}/name": "k10temp", f"{folder}/temp1_label": "Tctl", f"{folder}/temp1_input": "77250"}
    assert Temperatures(write_tree(tmp_path / "a", fan)).read() == {"k10temp Tctl": 77.2}
    die = {f"{folder}/temp2_label": "Tdie", f"{folder}/temp2_input": "50250"}
    assert Temperatures(write_tree(tmp_path / "b", fan | die)).read() == {"k10temp Tdie": 50.2}


def test_zones_stand_in_for_hwmon_and_impossible_values_are_left_out(tmp_path: Path) -> None:
    zone = "/sys/class/thermal/thermal_zone{}"
    files = {
        f"{zone.format(0)}/type": "acpitz",
        f"{zone.format(0)}/temp": "27800",
        f"{zone.format(1)}/type": "x86_pkg_temp",
        f"{zone.format(1)}/temp": "61000",
        f"{zone.format(2)}/type": "iwlwifi_1",
        f"{zone.format(2)}/temp": "40000",
        f"{zone.format(3)}/type": "cpu-thermal",
        f"{zone.format(3)}/temp": "-274000",
    }
    assert Temperatures(write_tree(tmp_path, files)).read() == {"x86_pkg_temp 1": 61.0}


def test_energy_runs_on_when_its_counter_wraps(tmp_path: Path) -> None:
    energy = Energy(write_tree(tmp_path, XEON))
    first = energy.read()
    assert first == {"package-0": 65532999000, "package-0/dram": 1000}
    write_tree(tmp_path, {"/sys/class/powercap/intel-rapl:0/energy_uj": "500"})
    assert energy.read()["package-0"] - first["package-0"] == 999 + 500


def test_energy_that_only_root_may_read_is_denied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = write_tree(tmp_path, XEON)
    real = kernel.os.open

    def refuse(path: str, flags: int) -> int:
        if path.endswith("energy_uj"):
            raise PermissionError(13, "Permission denied", path)
        return real(path, flags)

    monkeypatch.setattr(kernel.os, "open", refuse)
    energy = Energy(root)
    assert (energy.read(), energy.reason) == ({}, "denied: only root may read energy_uj")

from __future__ import annotations

from dataclasses import replace

import pytest

from suite.bundle.schema import Engine, Fact, Finding, Source
from suite.doctor import checks
from suite.doctor.advice import Advice
from suite.doctor.load import Load
from suite.doctor.places import Memory, Place
from suite.doctor.survey import Survey
from suite.launch.command import Requested
from suite.launch.engine import Choice
from suite.launch.topology import Placement
from tests.doctor.surveys import (
    GIB,
    engines,
    fact,
    launch,
    machine,
    native,
    setting,
    survey,
    with_facts,
)

EXPECTED_OF_A_HEALTHY_MACHINE = {"doctor.no-gpu"}


def said(seen: Survey, rule: str) -> Advice:
    """The advice of that rule; fails with what was said instead."""
    found = [advice for advice in checks.run(seen) if advice.rule == rule]
    assert found, [advice.rule for advice in checks.run(seen)]
    return found[0]


def rules(seen: Survey) -> set[str]:
    return {advice.rule for advice in checks.run(seen) if advice.severity != "proven"}


def test_a_healthy_machine_is_told_nothing_but_that_it_has_no_gpu():
    assert rules(survey()) == EXPECTED_OF_A_HEALTHY_MACHINE


def test_every_advice_has_evidence():
    troubled = survey(
        engines=native(slow=("docker",)),
        packages={"torch": None, "weasyprint": None},
        source=Source(version="0"),
        weights=(False, "not in the cache"),
    )
    assert all(advice.evidence for seen in (survey(), troubled) for advice in checks.run(seen))


# --- what makes a run impossible or wrong ---------------------------------------------------------------------------


def test_without_torch_no_run_is_possible():
    advice = said(survey(packages={"torch": None, "numpy": "2"}), "doctor.no-torch")
    assert (advice.stops_run, advice.advice) == (True, "`make setup`")


def test_without_a_pdf_library_a_run_is_possible():
    advice = said(survey(packages={"torch": "2.13.0", "weasyprint": None}), "doctor.no-weasyprint")
    assert (advice.severity, advice.stops_run) == ("doubtful", False)


@pytest.mark.parametrize(
    ("name", "rule"),
    [("cxx", "no-compiler"), ("python_header", "no-python-headers"), ("openssl", "no-openssl")],
)
def test_each_part_of_the_toolchain_is_missed_by_name(name: str, rule: str):
    missing = fact(False) if name == "python_header" else fact(None, "absent", "not in PATH")
    seen = survey(facts=with_facts(compiler={name: missing}))
    found = said(seen, f"doctor.{rule}")
    assert (found.severity, found.unpublishable, found.stops_run) == ("wrong", True, False)


def test_the_toolchain_of_the_image_is_not_judged_by_the_hosts():
    container = engines().choice.engine
    outside = engines(choice=Choice(container, starts_container=True))
    bare = with_facts(compiler={"cxx": fact(None, "absent")})
    found = rules(survey(engines=outside, facts=bare, packages={"torch": None}, findings=[]))
    assert found == {"doctor.view-from-outside", "doctor.no-gpu"}


def test_a_folder_that_cannot_be_written_stops_a_run():
    seen = survey(places=[Place("results", "results", "its file system is mounted read-only", GIB)])
    advice = said(seen, "doctor.not-writable")
    assert advice.stops_run
    assert "OUTPUT" in advice.advice


@pytest.mark.parametrize(("free", "severity", "stops"), [(10 << 20, "wrong", True), (1 * GIB, "doubtful", False)])
def test_a_full_disk_stops_a_run_and_a_nearly_full_one_does_not(free: int, severity: str, stops: bool):
    advice = said(survey(places=[Place("results", "results", "", free)]), "doctor.disk-full")
    assert (advice.severity, advice.stops_run) == (severity, stops)


def test_a_compiler_cache_on_a_noexec_mount_stops_a_run():
    seen = survey(places=[Place("compiler cache", "/tmp/speedproof", "", 9 * GIB, runs_code=False)])
    assert said(seen, "doctor.cache-noexec").stops_run


def test_results_on_a_noexec_mount_are_fine():
    seen = survey(places=[Place("results", "/results", "", 9 * GIB, runs_code=False)])
    assert rules(seen) == EXPECTED_OF_A_HEALTHY_MACHINE


def test_an_engine_that_was_asked_for_and_does_not_work_stops_a_run():
    advice = said(survey(engines=native("...", refusal="docker does not answer")), "doctor.engine-refused")
    assert advice.stops_run


def test_an_emulated_processor_is_told_by_what_proc_shows_of_the_real_one():
    arm = with_facts(cpu={"flags": ["asimd", "fp"], "vendor": "0x61"})
    assert said(survey(facts=arm), "doctor.emulated-processor").severity == "wrong"
    rosetta = with_facts(cpu={"vendor": "VirtualApple"})
    assert said(survey(facts=rosetta), "doctor.emulated-processor").severity == "wrong"


def test_a_real_arm_machine_is_not_emulated():
    arm = with_facts(cpu={"flags": ["asimd"], "vendor": "0x41"}, system={"architecture": "aarch64"})
    assert rules(survey(facts=arm)) == EXPECTED_OF_A_HEALTHY_MACHINE


def test_a_quota_below_one_cpu_is_what_would_be_measured():
    one = Placement((1,), (0,), "the allowed CPU")
    seen = survey(
        topology=machine(quota=0.5, allowed=(1,)),
        placement=one,
        launch=launch(threads=1),
        load=Load(0.6, 0.0, throttled=(120, 40)),
    )
    advice = said(seen, "doctor.quota-below-one")
    assert advice.claim == (
        "CPU quota 0.5 of 1 CPU: 1 thread is used and will be throttled; timings in a quota of less than one CPU measure "
        "the quota."
    )
    assert "throttled in 40 of 120 periods so far (cpu.stat)" in advice.evidence
    assert not advice.stops_run


def test_threads_above_the_quota_are_wrong_and_threads_within_it_doubtful():
    assert said(survey(topology=machine(quota=2.5)), "doctor.quota-below-threads").severity == "wrong"
    fitting = survey(topology=machine(quota=2.5), launch=launch(threads=2))
    assert said(fitting, "doctor.quota").severity == "doubtful"


def test_a_quota_of_all_cpus_is_no_limit():
    assert rules(survey(topology=machine(quota=4.0))) == EXPECTED_OF_A_HEALTHY_MACHINE


def test_exported_threads_beyond_the_cpus_are_wrong():
    asked = launch()
    asked = replace(asked, requested=[*asked.requested[:2], Requested("OMP_NUM_THREADS", "64,2", "user")])
    assert "64 threads" in said(survey(launch=asked), "doctor.threads-exceed-cpus").claim


def test_unpinned_threads_may_fill_all_allowed_cpus():
    seen = survey(topology=machine(8), placement=Placement((0, 1), (0,), ""), launch=launch(threads=8, prefix=[]))
    assert "doctor.threads-exceed-cpus" not in rules(seen)


@pytest.mark.parametrize(("left", "severity"), [(GIB // 2, "wrong"), (2 * GIB, "doubtful")])
def test_a_memory_limit_is_named_with_what_it_leaves(left: int, severity: str):
    advice = said(survey(memory=Memory(left, limit_bytes=2 * GIB)), "doctor.memory-short")
    assert advice.severity == severity
    assert "memory limit 2 GiB (cgroup)" in advice.evidence


def test_findings_of_the_launch_are_passed_on_by_their_own_names():
    finding = Finding(
        rule="launch.preload-ignored",
        severity="wrong",
        claim="The preload is ignored.",
        evidence=["ld.so: object '/nope.so' cannot be preloaded"],
        advice="unset LD_PRELOAD",
    )
    first = checks.run(survey(findings=[finding]))[0]
    assert (first.rule, first.evidence, first.advice) == (finding.rule, finding.evidence, finding.advice)
    assert first.unpublishable


def test_a_worker_that_does_not_come_up_is_wrong():
    seen = survey(effective="`numactl python` crashed with SIGSEGV.", settings=[])
    assert said(seen, "doctor.rehearsal-failed").evidence == ["`numactl python` crashed with SIGSEGV."]


def test_a_look_that_failed_is_said():
    assert said(survey(failures={"gpu": "ValueError: 7"}), "doctor.look-failed").evidence == ["ValueError: 7"]


def test_a_check_that_fails_does_not_cost_the_others():
    seen = survey(facts=with_facts(load={"thermal_throttles": {"core": "many"}}), packages={"torch": None})
    assert {"doctor.check-failed", "doctor.no-torch"} <= rules(seen)


# --- what makes a run unpublishable ---------------------------------------------------------------------------------


def test_a_native_run_is_not_publishable():
    assert said(survey(engines=native()), "doctor.not-containerised").unpublishable


def test_a_container_that_the_suite_did_not_start_is_told_apart():
    advice = said(
        survey(engines=native(), facts=with_facts(container={"container": "podman"})), "doctor.not-containerised"
    )
    assert "this is a container (podman) that the suite did not start" in advice.evidence


def test_an_engine_that_takes_its_time_leaves_the_question_open():
    advice = said(survey(engines=native(slow=("podman",))), "doctor.engine-slow")
    assert not advice.unpublishable
    assert advice.advice == "wait for `podman info`, and ask again"


def test_an_image_that_a_run_would_build_is_only_noted():
    seen = survey(engines=native("podman answers but the image is not there yet", answering=("podman",)))
    assert said(seen, "doctor.image-not-built").severity == "note"


def test_an_image_without_a_digest_is_not_publishable():
    nameless = Engine(name="docker", containerised=True, reason="started by docker")
    seen = survey(engines=engines(choice=Choice(nameless, starts_container=False)))
    assert said(seen, "doctor.image-unknown").unpublishable


@pytest.mark.parametrize(
    ("revision", "dirty", "rule"),
    [(None, None, "source-unknown"), ("1" * 40, True, "source-changed"), ("1" * 40, None, "source-unknown")],
)
def test_source_that_nobody_can_check_out_is_not_publishable(revision: str | None, dirty: bool | None, rule: str):
    seen = survey(source=Source(version="0", revision=revision, dirty=dirty))
    assert said(seen, f"doctor.{rule}").unpublishable


def test_a_torch_of_another_version_than_the_locks_is_doubtful():
    assert "2.12.1" in said(survey(packages={"torch": "2.12.1+cpu"}), "doctor.torch-not-locked").claim


def test_a_processor_without_avx2_is_doubtful():
    old = survey(facts=with_facts(cpu={"flags": ["sse2", "avx"]}))
    assert rules(old) == EXPECTED_OF_A_HEALTHY_MACHINE | {"doctor.no-avx2"}


def test_random_weights_are_noted():
    seen = survey(weights=(False, "not in the local cache"))
    assert said(seen, "doctor.random-weights").evidence == ["not in the local cache"]


def test_idle_siblings_are_noted_and_those_of_others_doubtful():
    assert (
        "CPUs 2-3"
        in said(
            survey(topology=machine(4, smt=True), placement=Placement((0, 1), (0,), "")), "doctor.smt-siblings"
        ).claim
    )
    cut = survey(topology=machine(4, smt=True, allowed=(0, 1)), placement=Placement((0, 1), (0,), ""))
    assert "belong to others" in said(cut, "doctor.smt-neighbours").claim


def test_measuring_on_both_threads_of_a_core_is_doubtful():
    both = survey(topology=machine(4, smt=True), placement=Placement((0, 1, 2, 3), (0,), "all"))
    assert rules(both) == EXPECTED_OF_A_HEALTHY_MACHINE | {"doctor.smt-used"}


def test_a_cpuset_is_named():
    seen = survey(topology=machine(4, allowed=(1,)), placement=Placement((1,), (0,), ""), launch=launch(threads=1))
    assert "1 of 4 CPUs may be used (1)" in said(seen, "doctor.part-of-machine").claim


# --- noise ----------------------------------------------------------------------------------------------------------


def test_other_work_is_named_with_who_does_it():
    load = Load(0.6, others_cpus=1.3, named=(("python", 1.0), ("chrome", 0.3)), load_1min=2.5)
    advice = said(survey(load=load), "doctor.others-run")
    assert advice.claim == "Other work uses 1.3 of 4 CPUs now."
    assert "python 1, chrome 0.3" in advice.evidence[1]


@pytest.mark.parametrize(("now", "ever"), [(0.05, 0.0), (0.0, 0.02)])
def test_steal_now_or_since_boot_is_doubtful(now: float, ever: float):
    load = Load(0.6, 0.0, steal_share=now, steal_share_since_boot=ever)
    assert said(survey(load=load), "doctor.steal").severity == "doubtful"


@pytest.mark.parametrize(
    ("subject", "name", "value", "rule"),
    [
        ("cpu", "governor", {"performance": "0-1", "powersave": "2-3"}, "governor"),
        ("cpu", "energy_performance_preference", {"balance_power": "0-3"}, "energy-preference"),
        ("cpu", "boost", True, "turbo"),
        ("cpu", "hypervisor", "KVM", "virtual-machine"),
        ("cpu", "idle_states", [{"name": "C6", "exit_latency_us": 170, "disabled_on": ""}], "idle-states"),
        ("load", "thermal_throttles", {"core": 0, "package": 3}, "thermal-throttled"),
        ("memory", "swap_total_bytes", GIB, "swap"),
        ("memory", "transparent_huge_pages", "always", "huge-pages"),
        ("system", "clocksource", "hpet", "slow-timer"),
        ("system", "address_space_randomisation", 0, "layout-fixed"),
    ],
)
def test_each_source_of_noise_is_named(subject: str, name: str, value: object, rule: str):
    seen = survey(facts=with_facts(**{subject: {name: value}}))
    assert rules(seen) == EXPECTED_OF_A_HEALTHY_MACHINE | {f"doctor.{rule}"}


def test_swap_in_use_is_worse_than_swap():
    assert said(survey(memory=Memory(60 * GIB, swap_used_bytes=GIB)), "doctor.swap-used").severity == "doubtful"


def test_numa_balancing_is_doubtful_only_while_memory_is_not_bound():
    topology = replace(machine(), nodes=(0, 1))
    on = with_facts(system={"numa_balancing": 1})
    assert said(survey(topology=topology, facts=on), "doctor.numa-balancing").severity == "note"
    unbound = survey(topology=topology, facts=on, launch=launch(prefix=["taskset", "-c", "0-3"]))
    assert said(unbound, "doctor.numa-balancing").severity == "doubtful"


def test_isolated_cpus_matter_only_to_threads_that_are_not_pinned():
    isolated = with_facts(cpu={"isolated": [2, 3]})
    assert rules(survey(facts=isolated)) == EXPECTED_OF_A_HEALTHY_MACHINE
    assert said(survey(facts=isolated, launch=launch(prefix=[])), "doctor.isolated-unpinned").severity == "doubtful"


# --- what cannot be proven --------------------------------------------------------------------------------------------


def test_what_is_hidden_is_told_with_who_can_tell():
    hidden = with_facts(memory={"dimms": fact(None, "denied", "permission denied")})
    advice = said(survey(facts=hidden), "doctor.unproven-memory-modules")
    assert advice.evidence == ["a test: permission denied"]
    assert "fingerprint-host" in advice.advice


def test_a_topic_is_proven_by_any_of_its_facts():
    partly = with_facts(cpu={"maximum_mhz": fact(None, "absent"), "governor": {"performance": "0-3"}})
    assert rules(survey(facts=partly)) == EXPECTED_OF_A_HEALTHY_MACHINE


def test_the_topology_of_a_virtual_machine_is_the_hypervisors_word():
    virtual = with_facts(cpu={"physical_cores": fact(2, "virtualised")})
    assert "hidden" in said(survey(facts=virtual), "doctor.unproven-topology").claim


def test_a_setting_that_cannot_be_read_back_is_not_called_proven():
    seen = survey(settings=[setting("memory_nodes", "0", None, status="unknown")])
    assert "memory_nodes=0" in said(seen, "doctor.unproven-setting").claim
    assert "doctor.placement-in-force" not in {advice.rule for advice in checks.run(seen)}


# --- GPUs -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value", "rule"),
    [
        ("other_compute_processes", 2, "gpu-shared"),
        ("clock_event_reasons", ["hardware thermal slowdown"], "gpu-slowed"),
        ("remapped_rows_pending", True, "gpu-memory-errors"),
        ("mig", True, "gpu-mig"),
        ("persistence_mode", False, "gpu-persistence"),
        ("ecc", False, "gpu-ecc-off"),
    ],
)
def test_what_unsettles_a_gpu_is_named_with_its_number(name: str, value: object, rule: str):
    seen = survey(facts=with_facts(gpu={"count": 2, f"gpu 1 {name}": value}), packages={"torch": "2.13.0"})
    assert "GPU 1" in said(seen, f"doctor.{rule}").claim
    assert rules(seen) == {f"doctor.{rule}"}


@pytest.mark.parametrize(
    ("count", "rule"),
    [
        (fact(0, note="no device of NVIDIA's on PCI"), "no-gpu"),
        (fact(None, "absent", "no PCI bus is visible, and nothing else shows a GPU of NVIDIA's"), "no-gpu"),
        (fact(None, "masked", "2 GPUs of NVIDIA's on PCI, but no /dev/nvidiactl in this container"), "gpu-hidden"),
        (fact(None, "absent", "1 GPU of NVIDIA's on PCI, bound to no driver"), "gpu-hidden"),
        (fact(None, "absent", "a driver of NVIDIA's, but NVML cannot be asked"), "gpu-hidden"),
    ],
)
def test_no_gpu_and_one_that_cannot_be_used_are_told_apart(count: Fact, rule: str):
    assert f"doctor.{rule}" in rules(survey(facts=with_facts(gpu={"count": count})))


def test_a_gpu_and_a_torch_without_cuda_are_told():
    seen = survey(facts=with_facts(gpu={"count": 1}))
    assert rules(seen) == {"doctor.torch-without-cuda"}


# --- what is proven, and the order ------------------------------------------------------------------------------------


def test_what_is_in_force_is_shown_in_a_sentence():
    assert said(survey(), "doctor.placement-in-force").claim == (
        "Placement: 4 threads, pinned to CPUs 0-3, each on one CPU, memory bound to node 0."
    )
    claims = [advice.claim for advice in checks.run(survey()) if advice.rule == "doctor.library-in-force"]
    assert claims == ["libiomp5.so runs the threads.", "libjemalloc.so.2 allocates."]


def test_a_healthy_machine_is_told_what_is_in_order():
    proven = {advice.rule.removeprefix("doctor.") for advice in checks.run(survey()) if advice.severity == "proven"}
    assert proven == {
        "placement-in-force",
        "library-in-force",
        "settings-in-force",
        "toolchain",
        "quiet",
        "room",
        "source",
        "image",
    }


def test_what_is_not_in_order_is_not_called_proven():
    seen = survey(
        settings=[],
        facts=with_facts(compiler={"openssl": fact(None, "absent")}),
        load=Load(0.6, 2.0),
        places=[Place("results", "results", "read-only")],
        source=Source(version="0", revision="1" * 40, dirty=True),
        engines=native(),
    )
    assert [advice.rule for advice in checks.run(seen) if advice.severity == "proven"] == []


def test_what_stops_a_run_comes_first_and_what_is_proven_last():
    seen = survey(
        packages={"torch": None},
        topology=machine(quota=0.5),
        source=Source(version="0"),
        facts=with_facts(cpu={"boost": True}),
    )
    found = checks.run(seen)
    severities = [advice.severity for advice in found]
    assert found[0].stops_run
    assert severities == sorted(severities, key=["wrong", "doubtful", "note", "proven"].index)


def test_within_a_severity_the_order_is_that_of_the_lists():
    seen = survey(engines=native(), load=Load(0.6, 2.0), memory=Memory(2 * GIB, 2 * GIB))
    doubtful = [advice.rule for advice in checks.run(seen) if advice.severity == "doubtful"]
    assert doubtful == ["doctor.memory-short", "doctor.not-containerised", "doctor.others-run"]

# The front door. Options are variables: make bench-cpu PRESET=standard CASES=matmul_add OUTPUT=results
PRESET ?= quick
OUTPUT ?= results
# Recipes read the variables from the environment, so that spaces and quotes in a value reach the program as they are.
# A path is what was typed: make would take what follows a $ in it for a name of its own.
$(foreach name,OUTPUT RUN RUNS BASELINE TRACE TABLE AGAINST MODEL_DIR,$(if $(filter-out undefined default,$(origin $(name))),$(eval override export $(name) := $$(value $(name)))))
export PRESET OUTPUT
MAKEFLAGS += --no-print-directory
PYTHON_ENV := .venv/bin/python

.PHONY: help setup setup-dev doctor smoke analyze bench-cpu bench-gpu ablate container-cost fingerprint-host system-description report compare test lint perf versus-sequential image-cpu image-cuda lock clean
.DEFAULT_GOAL := help

help: ## This list
	@echo 'Speedproof: PyTorch eager against torch.compile, measured so that the ratio can be trusted.'
	@echo; echo 'Targets'
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/\1\t\2/p' $(MAKEFILE_LIST) | while IFS="$$(printf '\t')" read -r name text; do \
	  printf '  %-12s %s\n' "$$name" "$$text"; done
	@echo; echo 'Variables (make TARGET NAME=value)'
	@sed -n 's/^#: \([A-Z_]*\) *\(.*\)/\1\t\2/p' $(MAKEFILE_LIST) | while IFS="$$(printf '\t')" read -r name text; do \
	  printf '  %-15s %s\n' "$$name" "$$text"; done

#: PRESET          smoke, quick (the default), standard or paper
#: CASES           cases instead of the preset's, separated by commas: matmul_add,pointwise_chain/16384x512-fp32
#: ARMS            arms to compare with eager, separated by commas: inductor,inductor-freezing
#: DEVICE          bench-gpu: number of the GPU, or of the MIG instance (default: 0)
#: WALKTHROUGH     bench-gpu: "yes" also writes the walkthrough's own files, traces/01_matmul_add/; analyze: asks its questions of traces named as these
#: PASSES          bench-gpu: which of a case's further profiles are made: cold,warm,active20,wait0 (default: all)
#: PROCESSES       processes a case, instead of the preset's number
#: PROFILE         "no" leaves the profiling passes out
#: SETTINGS        launch profile: tuned (the default), tutorial or untuned
#: CORES           CPUs for the workers, as 0-3,8 (default: the physical cores of one socket)
#: NODES           NUMA nodes for the workers' memory, and cores unless CORES names them
#: SMT             "yes" takes all hardware threads of the cores
#: THREADS         OpenMP threads (default: one a core, within the CPU quota)
#: STRICT          "yes" refuses to run when a requested setting is not in force
#: DESIGN          ablate: steps (the default; each adds a setting) or alone (each by itself)
#: ROUNDS          ablate: how often each level of settings is started
#: TRACE           analyze: the trace to read, or several, with blanks between
#: TABLE           analyze: the profiler's own table of the (first) trace, to be reconciled with it
#: AGAINST         analyze: the eager arm's trace, which a compiled one is compared with
#: JSON            doctor, analyze: "yes" prints JSON and nothing else
#: ENGINE          auto (the default), native, docker or podman
#: RUN             bench-cpu: the run to continue; report: the run to render (default: the latest)
#: RUNS            compare: the runs to put on one page, separated by spaces: ids below OUTPUT, or folders
#: BASELINE        compare: the run that the others are compared with, by letter or id (default: the first)
#: ALLOW           compare: rank in spite of this difference: torch, threads
#: OUTPUT          where bundles are written (default: results)
#: MODEL_DIR       folder with MobileBERT's config.json and weights (without: random weights, and the report says so)
#: MODEL_REVISION  commit of the published weights, from the local cache
#: TRACE_CORPUS    perf, test: folder of published traces to read (without: a made one, and tests of it are skipped)
#: HTA_PYTHON      perf: a Python with HolisticTraceAnalysis, to be timed beside
#: BUILD_FLAGS     more options for building the image, for sites behind a proxy or mirror

# Where and on what to run, for the commands that measure.
where = if [ -n "$$CORES" ]; then set -- "$$@" --cores "$$CORES"; fi; \
	if [ -n "$$NODES" ]; then set -- "$$@" --nodes "$$NODES"; fi; \
	case $$SMT in yes | YES | 1 | true) set -- "$$@" --smt ;; esac; \
	if [ -n "$$ENGINE" ]; then set -- "$$@" --engine "$$ENGINE"; fi

resume = if [ -n "$$RUN" ]; then set -- "$$@" --resume "$$RUN"; fi

setup: ## Prepare .venv and the system's packages (the other targets do it when needed)
	@docker/setup

setup-dev:
	@docker/setup --dev

doctor: setup ## What this machine can and cannot prove, and what to do about it (three seconds)
	@set -- --output "$$OUTPUT"; \
	if [ -n "$$SETTINGS" ]; then set -- "$$@" --settings "$$SETTINGS"; fi; \
	if [ -n "$$THREADS" ]; then set -- "$$@" --threads "$$THREADS"; fi; \
	case $$JSON in yes | YES | 1 | true) set -- "$$@" --json ;; esac; \
	$(where); exec $(PYTHON_ENV) -m suite doctor "$$@"

bench-cpu: setup ## Measure, profile and report: writes a bundle with report.html and report.pdf
	@set -- --preset "$$PRESET" --output "$$OUTPUT"; \
	if [ -n "$$CASES" ]; then set -- "$$@" --cases "$$CASES"; fi; \
	if [ -n "$$ARMS" ]; then set -- "$$@" --arms "$$ARMS"; fi; \
	if [ -n "$$PROCESSES" ]; then set -- "$$@" --processes "$$PROCESSES"; fi; \
	case $$PROFILE in no | NO | 0 | false) set -- "$$@" --no-profile ;; esac; \
	if [ -n "$$SETTINGS" ]; then set -- "$$@" --settings "$$SETTINGS"; fi; \
	if [ -n "$$THREADS" ]; then set -- "$$@" --threads "$$THREADS"; fi; \
	case $$STRICT in yes | YES | 1 | true) set -- "$$@" --strict ;; esac; \
	$(where); $(resume); exec $(PYTHON_ENV) -m suite run "$$@"

ablate: setup ## Measure what each launch setting buys on this machine (about half an hour)
	@set -- --preset "$$PRESET" --output "$$OUTPUT"; \
	if [ -n "$$CASES" ]; then set -- "$$@" --cases "$$CASES"; fi; \
	if [ -n "$$ARMS" ]; then set -- "$$@" --arms "$$ARMS"; fi; \
	if [ -n "$$DESIGN" ]; then set -- "$$@" --design "$$DESIGN"; fi; \
	if [ -n "$$ROUNDS" ]; then set -- "$$@" --rounds "$$ROUNDS"; fi; \
	if [ -n "$$SETTINGS$$THREADS" ]; then \
	  echo "speedproof: an ablation switches the tuned profile's settings one by one: leave SETTINGS and THREADS out." >&2; exit 2; fi; \
	case $$STRICT in yes | YES | 1 | true) set -- "$$@" --strict ;; esac; \
	$(where); $(resume); exec $(PYTHON_ENV) -m suite ablate "$$@"

bench-gpu: setup ## The same on one NVIDIA GPU; without one a sentence, and exit status 2
	@set -- --preset "$$PRESET" --output "$$OUTPUT"; \
	if [ -n "$$CASES" ]; then set -- "$$@" --cases "$$CASES"; fi; \
	if [ -n "$$ARMS" ]; then set -- "$$@" --arms "$$ARMS"; fi; \
	if [ -n "$$DEVICE" ]; then set -- "$$@" --device "$$DEVICE"; fi; \
	if [ -n "$$PROCESSES" ]; then set -- "$$@" --processes "$$PROCESSES"; fi; \
	case $$PROFILE in no | NO | 0 | false) set -- "$$@" --no-profile ;; esac; \
	case $$WALKTHROUGH in yes | YES | 1 | true) set -- "$$@" --walkthrough ;; esac; \
	if [ -n "$$PASSES" ]; then set -- "$$@" --passes "$$PASSES"; fi; \
	if [ -n "$$SETTINGS" ]; then set -- "$$@" --settings "$$SETTINGS"; fi; \
	if [ -n "$$THREADS" ]; then set -- "$$@" --threads "$$THREADS"; fi; \
	case $$STRICT in yes | YES | 1 | true) set -- "$$@" --strict ;; esac; \
	if [ -n "$$CORES" ]; then set -- "$$@" --cores "$$CORES"; fi; \
	if [ -n "$$NODES" ]; then set -- "$$@" --nodes "$$NODES"; fi; \
	case $$SMT in yes | YES | 1 | true) set -- "$$@" --smt ;; esac; \
	$(resume); exec $(PYTHON_ENV) -m suite bench-gpu "$$@"

smoke: export PRESET = smoke
smoke: export ENGINE ?= native
smoke: bench-cpu ## The whole path in under two minutes, on tiny shapes; never publishable

container-cost: setup ## Measure what running in a container costs here (docker or podman; about ten minutes)
	@set -- --preset "$$PRESET" --output "$$OUTPUT"; \
	if [ -n "$$CASES" ]; then set -- "$$@" --cases "$$CASES"; fi; \
	if [ -n "$$ARMS" ]; then set -- "$$@" --arms "$$ARMS"; fi; \
	if [ -n "$$ROUNDS" ]; then set -- "$$@" --rounds "$$ROUNDS"; fi; \
	$(where); $(resume); exec $(PYTHON_ENV) -m suite container-cost "$$@"

fingerprint-host: ## Optional, as root on the host: what a container cannot see, for the runs in it
	@docker/fingerprint-host --output "$$OUTPUT/host-fingerprint.json"

system-description: setup ## A finished run's machine as MLPerf describes one (RUN=id; JSON on standard output)
	@if [ -z "$$RUN" ]; then echo "speedproof: name a run: make system-description RUN=<run-id>" >&2; exit 2; fi; \
	case $$RUN in */*) ;; *) RUN=$$OUTPUT/$$RUN ;; esac; exec $(PYTHON_ENV) -m reports mlperf "$$RUN"

analyze: setup ## Read a torch.profiler trace and tell what it means (TRACE=file; a page in OUTPUT/traces)
	@if [ -z "$$TRACE" ]; then echo "speedproof: name a trace: make analyze TRACE=trace.json" >&2; exit 2; fi; \
	if [ -e "$$TRACE" ]; then set -- "$$TRACE"; else set -- $$TRACE; fi; \
	for said in "WALKTHROUGH=$$WALKTHROUGH" "JSON=$$JSON"; do case $${said#*=} in "" | yes | YES | 1 | true | no | NO | 0 | false) ;; *) echo "speedproof: $$said: say yes or no" >&2; exit 2 ;; esac; done; \
	case $$WALKTHROUGH-$$JSON in [yY1t]*-[yY1t]*) echo "speedproof: WALKTHROUGH=yes writes a page, not JSON: leave one of the two away" >&2; exit 2 ;; esac; \
	case $$WALKTHROUGH in yes | YES | 1 | true) exec $(PYTHON_ENV) -m reports walkthrough "$$@" --output "$$OUTPUT/traces" ;; esac; \
	if [ -n "$$TABLE" ]; then set -- "$$@" --table "$$TABLE"; fi; \
	if [ -n "$$AGAINST" ]; then set -- "$$@" --against "$$AGAINST"; fi; \
	case $$JSON in yes | YES | 1 | true) set -- "$$@" --json ;; *) set -- "$$@" --output "$$OUTPUT/traces" ;; esac; \
	exec $(PYTHON_ENV) -m reports analyze "$$@"

report: setup ## Render a finished run's report again (RUN=id; default: the latest)
	@if [ -n "$$RUN" ]; then case $$RUN in */*) ;; *) RUN=$$OUTPUT/$$RUN ;; esac; exec $(PYTHON_ENV) -m reports render "$$RUN"; fi; \
	exec $(PYTHON_ENV) -m reports render --latest "$$OUTPUT"

compare: setup ## Put runs of one or more machines on one page (RUNS="id id ..."): HTML, PDF and CSV
	@if [ -z "$$RUNS" ]; then echo 'speedproof: name the runs to compare: make compare RUNS="<run-id> <run-id>"' >&2; exit 2; fi; \
	set -f; set -- $$RUNS; \
	exec $(PYTHON_ENV) -m reports compare --output "$$OUTPUT" $${BASELINE:+--baseline "$$BASELINE"} $${ALLOW:+--allow "$$ALLOW"} -- "$$@"

test: setup-dev ## The tests
	@exec $(PYTHON_ENV) -m pytest -q tests

lint: setup-dev ## Style, format, types and the import contract
	@.venv/bin/ruff check . && .venv/bin/ruff format --check . && .venv/bin/mypy && .venv/bin/lint-imports --no-logo

perf: setup-dev ## How fast the suite and the reports themselves are, and versus-sequential (about 25 minutes)
	@$(PYTHON_ENV) -m tests.perf && $(PYTHON_ENV) -m tests.perf.telemetry_cost && $(PYTHON_ENV) -m tests.perf.trace_reading && exec $(PYTHON_ENV) -m tests.perf.versus_sequential

versus-sequential: setup-dev ## How far the usual sequential method and ours scatter, side by side (about 20 minutes)
	@exec $(PYTHON_ENV) -m tests.perf.versus_sequential

image-cpu: ## Build the container image speedproof:cpu (BASE, SNAPSHOT, WEIGHTS: see docker/README.md)
	@docker/image cpu

.PHONY: image-cuda
image-cuda: ## Build the container image speedproof:cuda (several GB; needs no GPU)
	@docker/image cuda

lock: setup-dev ## Refresh the locked packages from pyproject.toml
	@docker/lock

clean: ## Remove .venv and caches; results stay
	rm -rf .venv .venv.lock .venv.log .venv.interrupted .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find suite reports tests -name __pycache__ -type d -prune -exec rm -rf {} +

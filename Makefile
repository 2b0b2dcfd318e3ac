# The main entry point of RRDMA. Every target works on a bare Debian 12 or 13: it installs missing packages
# (scripts/packages.txt), configures (CMakePresets.json), builds and runs. CMake and ctest do the work.
SHELL := /bin/bash
JOBS ?= $(shell nproc)
TEST_JOBS ?= $(shell expr 2 '*' $(JOBS)) # most tests wait for a timer or a peer
PREFIX ?= /usr/local
DESTDIR ?=
FUZZ_SECONDS ?= 60
CTEST_ARGS ?=
CLANG ?= 1
QUICK ?= 0
BENCH_ARGS ?=
KERNEL_ARGS ?=
HOST_ARCH := $(shell dpkg --print-architecture 2>/dev/null)
ARCH ?= $(HOST_ARCH)
cross_group = $(if $(filter-out $(HOST_ARCH),$(ARCH)),cross)
need := scripts/install-packages

.DEFAULT_GOAL := help
.PHONY: help build demo test clang test-clang test-asan test-tsan test-cross soak fuzz bench bench-loss bench-check bench-history bench-micro \
        coverage interop interop-quick kernel-test test-inspector bench-inspector install uninstall deb dist docs bench-comm bench-rpc format tidy clean

help: ## list the targets
	@echo 'RRDMA: an RDMA NIC made of software. Targets:'
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# Builds, and configures if presets or packages changed: $(call build,PRESET,TARGETS).
build = scripts/build $(1) $(2) -j $(JOBS)

build: ## build the programs; build/bin/rrdma then runs in place
	@$(need) build
	@$(call build,dev,products)

demo: ## build the device in about a minute, then show unmodified RDMA programs on rrdma0
	@$(need) core demo
	@$(call build,demo,demo_programs)
	@scripts/demo build-demo

test: ## build with GCC, check with clang (CLANG=0: without), warnings as errors, and run the tests (ctest)
	@$(need) build test
	@$(call build,dev,)
	@scripts/test $(TEST_JOBS) '$(CLANG)' $(CTEST_ARGS)

clang: ## build with clang only
	@$(need) build test
	@$(call build,clang,)

test-clang: clang ## run the tests in the clang build
	@ctest --preset clang -j $(JOBS) $(CTEST_ARGS)

test-asan: ## run the tests under AddressSanitizer and UndefinedBehaviorSanitizer
	@$(need) build test sanitize
	@$(call build,asan-ubsan,)
	@ctest --preset asan-ubsan -j $(JOBS) $(CTEST_ARGS)

test-tsan: ## run the tests under ThreadSanitizer
	@$(need) build test sanitize
	@$(call build,tsan,)
	@ctest --preset tsan -j $(JOBS) $(CTEST_ARGS)

test-cross: ## cross build for the other architecture (x86-64 or arm64), unit tests under qemu-user
	@$(need) build cross
	@scripts/test-cross $(JOBS)

soak: ## run the long tests (label soak)
	@$(need) build test deb :mmdebstrap
	@$(call build,dev,)
	@ctest --preset soak $(CTEST_ARGS)

fuzz: ## run each fuzz target for FUZZ_SECONDS=60 under ASan and UBSan, JOBS at a time; one line about each
	@$(need) build fuzz
	@$(call build,fuzz,fuzz_programs)
	@scripts/fuzz build-fuzz $(FUZZ_SECONDS) --jobs $(JOBS)
	@scripts/fuzz-coverage build-fuzz

bench: ## measure RRDMA and its alternatives side by side; table and charts in build/bench (QUICK=1: in 5 minutes)
	@$(need) build bench
	@$(call build,release,products side_by_side)
	@scripts/bench build-release $(if $(filter-out 0,$(QUICK)),--quick) $(BENCH_ARGS)

bench-loss: ## measure what losses, bursts and reordering cost over UDP; table in build/bench-loss
	@$(need) build bench
	@$(call build,release,products side_by_side)
	@python3 -B bench/loss.py --build build-release --output build/bench-loss $(BENCH_ARGS)

bench-check: ## hold the speed against the bars of wire and engine and against the last line of bench/history; wants a quiet machine
	@$(need) build bench
	@$(call build,release,bars products side_by_side)
	@scripts/bench --bars build-release
	@scripts/bench build-release --quick
	@python3 -B bench/history.py check build/bench/results.json

bench-history: ## measure this commit beside the alternatives and add it to bench/history, with a chart; wants a quiet machine
	@$(need) build bench
	@$(call build,release,products side_by_side)
	@scripts/bench build-release --quick
	@python3 -B bench/history.py add build/bench/results.json

bench-micro: ## run the micro-benchmarks of wire, engine and links
	@$(need) build bench
	@$(call build,release,)
	@scripts/bench --micro build-release $(BENCH_ARGS)

bench-comm: ## measure rrdma::comm beside bare verbs, UCX and TCP, and hold it against its bars
	@$(need) build bench
	@$(call build,release,products comm_bench)
	@python3 -B bench/comm/comm.py build-release $(BENCH_ARGS)

bench-rpc: ## measure rrdma::rpc beside gRPC, Cap'n Proto, Asio, UCX and bare verbs; table and charts in build/bench
	@$(need) build bench bench-rpc
	@$(call build,release,products comm_bench rpc_bench_programs)
	@python3 -B bench/rpc/rpc.py build-release $(BENCH_ARGS)

docs: ## write the reference of rrdma::comm to build/reference
	@$(need) docs
	@mkdir -p build/reference
	@doxygen docs/Doxyfile

# The products, and programs that check every byte, run at both ends.
interop_build = $(call build,dev,products process_exchange answers_probe comm_test comm_swarm comm_across rpc_test rpc_across)
qemu := $(if $(filter x86_64,$(shell uname -m)),:qemu-system-x86,:qemu-system-arm)

interop: ## run the matrix against the Linux kernel's rxe (6.1 and 6.12, QEMU); report in build/interop
	@$(need) build test interop $(qemu)
	@$(interop_build)
	@python3 tests/interop/rxe/interop.py

interop-quick: ## the same in a few minutes: one kernel, IPv4, no loss
	@$(need) build test interop $(qemu)
	@$(interop_build)
	@python3 tests/interop/rxe/interop.py --quick

kernel-test: ## run the kernel module in a QEMU guest: programs, kernel users, a killed daemon (KERNEL_ARGS=--quick)
	@$(need) build test interop kernel kernel-headers-$(HOST_ARCH) $(qemu)
	@$(call build,dev,products)
	@python3 -B tests/interop/kernel/kernel_test.py $(KERNEL_ARGS)

test-inspector: ## look at `rrdma inspect` with a real browser (chromium, npm); screenshots in build/inspector
	@$(need) build test inspector
	@command -v npm >/dev/null || $(need) :npm
	@$(call build,dev,products)
	@cd inspector && npm ci --no-audit --no-fund --silent && npm run --silent check
	@python3 -B tests/tools/inspector/inspector_test.py build/bin/rrdma build/inspector

bench-inspector: ## what it costs programs to be watched by `rrdma inspect` in a browser
	@$(need) build test inspector
	@command -v npm >/dev/null || $(need) :npm
	@$(call build,release,products)
	@cd inspector && npm ci --no-audit --no-fund --silent
	@python3 -B tests/tools/inspector/cost.py build-release/bin/rrdma

coverage: ## run the tests with line counters; report in build-coverage/coverage/index.html
	@$(need) build test coverage
	@$(call build,coverage,)
	@scripts/coverage build-coverage $(JOBS)

install: ## install the release build to DESTDIR + PREFIX=/usr/local
	@$(need) build
	@$(call build,release,products) -D CMAKE_INSTALL_PREFIX='$(PREFIX)'
	@DESTDIR='$(DESTDIR)' cmake --install build-release --strip

uninstall: ## remove what the last `make install` of this tree installed
	@scripts/uninstall build-release/install_manifest.txt

deb: ## build a Debian package into build-deb/ and check it with lintian
	@$(need) build deb
	@scripts/make-deb

dist: ## build the portable release for ARCH=amd64 or arm64 into dist/: archives, debug symbols, SBOM, checksums
	@$(need) build dist $(cross_group)
	@scripts/make-dist '$(ARCH)' $(JOBS)

format: ## rewrite the C++ sources with clang-format
	@$(need) format
	@git ls-files '*.h' '*.cc' '*.c' | xargs clang-format-14 -i

tidy: ## check the style rules and run clang-tidy
	@$(need) build format
	@python3 tests/house/tidy/tidy.py --root .
	@scripts/build clang --configure-only
	@git ls-files 'src/*.cc' | grep -v _test.cc | xargs -P $(JOBS) -n 4 clang-tidy-14 -p build-clang --quiet

clean: ## remove everything that was built
	rm -rf build build-*/ dist

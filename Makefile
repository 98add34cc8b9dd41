# A short front for CMake and Ninja. `make help` lists the targets.
#
#   BUILD=build   where the program is built; sanitizer builds go to $(BUILD)-asan and $(BUILD)-tsan
#   CUDA=auto     with CUDA where there is a GPU and nvcc; 1: build it whatever the machine has, 0: leave it out
#   CC=clang      another compiler (in a fresh BUILD)
#   SECONDS=600   how long `make fuzz` runs
#   FAULTS=train  which scenarios `make faults` walks; all if not given
#   PREFIX=/usr/local  DESTDIR=   where `make install` puts things
#   DEPS=DIR      packages unpacked below DIR instead of installed (tools/setup.sh says how)
BUILD ?= build
CUDA ?= auto
SECONDS ?= 600
PREFIX ?= /usr/local
DESTDIR ?=

ifneq ($(DEPS),)
deps := $(abspath $(DEPS))
libraries := $(wildcard $(deps)/usr/lib/*-linux-gnu)
export PATH := $(deps)/usr/bin:$(PATH)
export PKG_CONFIG_PATH := $(libraries:%=%/pkgconfig):$(PKG_CONFIG_PATH)
export PKG_CONFIG_SYSROOT_DIR := $(deps)
export CMAKE_PREFIX_PATH := $(deps)/usr
export LD_LIBRARY_PATH := $(libraries):$(LD_LIBRARY_PATH)
endif

cuda_0 = OFF
cuda_1 = ON
cuda_auto = AUTO
ifeq ($(cuda_$(CUDA)),)
$(error CUDA=$(CUDA): use 1, 0 or auto)
endif

# A tree that was copied or moved with its build folders: these still build the old place.
stale := $(shell for dir in $(BUILD) $(BUILD)-asan $(BUILD)-tsan; do \
	test -f $$dir/CMakeCache.txt || continue; \
	grep -qx "CMAKE_HOME_DIRECTORY:INTERNAL=$(CURDIR)" $$dir/CMakeCache.txt && \
	grep -qx "CMAKE_CACHEFILE_DIR:INTERNAL=$$(cd $$dir && pwd -P)" $$dir/CMakeCache.txt || \
	echo $$dir; done)
ifneq ($(stale),)
$(info configuring anew what was configured elsewhere: $(stale))
$(shell for dir in $(stale); do rm -rf $$dir/CMakeCache.txt $$dir/CMakeFiles $$dir/build.ninja; done)
endif

configure = cmake -S . -G Ninja --log-level=NOTICE
ifneq ($(origin CUDA),file)
configure += -DPACER_CUDA=$(cuda_$(CUDA))
endif
# Progress for a person; for a log, only what goes wrong (Ninja knows how since 1.11).
ninja = ninja $$([ -t 2 ] || ! ninja --quiet --version >/dev/null 2>&1 || echo --quiet)
# More tests than processors: most of the long ones wait for processes they started.
ctest = ctest --output-on-failure --no-tests=error -j $$((3 * $$(nproc)))

.PHONY: all
all: $(BUILD)/build.ninja ## build the program, build/pacer
ifneq ($(origin CUDA),file)
	@$(configure) -B $(BUILD)
endif
	@$(ninja) -C $(BUILD) pacer
	@echo "built $(BUILD)/pacer"
	@echo "next: make demo (a model in minutes), $(BUILD)/pacer help, make test, make help"

# Configured means that nothing was missing, so setup costs nothing from then on; Ninja configures
# again by itself when a CMake file or the list of sources changes.
$(BUILD)/build.ninja:
	@tools/setup.sh
	@$(configure) -B $(BUILD)

.PHONY: test
test: ## everything: setup, build, lint, all tests, all tests again under sanitizers, threads under theirs
	@tools/setup.sh --tests
	@$(configure) -B $(BUILD) -DPACER_TESTS=ON
	@$(ninja) -C $(BUILD)
	@BUILD=$(BUILD) tools/lint.sh
	@$(ctest) --test-dir $(BUILD)
	@$(configure) -B $(BUILD)-asan -DPACER_TESTS=ON -DPACER_SANITIZE=ON -DPACER_CUDA=OFF
	@$(ninja) -C $(BUILD)-asan
	@$(ctest) --test-dir $(BUILD)-asan
	@$(MAKE) --no-print-directory test-threads
	@echo "make test: build, lint, tests and sanitized tests passed"

.PHONY: test-threads
test-threads: ## tests of what has threads, under ThreadSanitizer (gcc)
	@CC=gcc $(configure) -B $(BUILD)-tsan -DPACER_TESTS=ON -DPACER_SANITIZE=thread -DPACER_CUDA=OFF
	@$(ninja) -C $(BUILD)-tsan tests/all
	@$(ctest) --test-dir $(BUILD)-tsan

.PHONY: test-fast
test-fast: $(BUILD)/build.ninja ## the tests of the plain build alone
	@$(ninja) -C $(BUILD)
	@$(ctest) --test-dir $(BUILD)

.PHONY: fuzz
fuzz: ## look for inputs that break a parser, SECONDS=600 in all, with libFuzzer if clang has it
	@tools/setup.sh --tests
	@tests/fuzz/run.sh $(SECONDS) $(BUILD)-fuzz

.PHONY: faults
faults: ## make every call fail once (write, rename, malloc, ...), and kill at every write: half an hour or more
	@tools/setup.sh --tests
	@$(configure) -B $(BUILD) -DPACER_TESTS=ON
	@$(ninja) -C $(BUILD) pacer faultlib
	@PACER=$(abspath $(BUILD))/pacer FAULTLIB=$(abspath $(BUILD))/tests/faultlib.so tests/fault/run.sh $(FAULTS)

.PHONY: lint
lint: ## format, file sizes, includes, headers that stand alone, clang-tidy, generated pages
	@BUILD=$(BUILD) tools/lint.sh

.PHONY: tidy
tidy: ## lint, with clang-tidy's analysis of memory and files: minutes
	@BUILD=$(BUILD) TIDY_CHECKS='clang-analyzer-unix.*' tools/lint.sh

.PHONY: format
format: ## rewrite all C files in the house format
	@find src include examples bench tests -type f -regex '.*\.\(c\|h\|cu\|cuh\)' -exec clang-format -i {} +

.PHONY: docs
docs: ## the pages that are made from the source: docs/reference/api.md
	@awk -f tools/api_reference.awk include/pacer.h >docs/reference/api.md

.PHONY: bench
bench: all ## time a training step on this machine
	@$(BUILD)/pacer bench step

.PHONY: demo
demo: all ## text, tokenizer, training and a sample, in minutes
	@$(BUILD)/pacer demo

.PHONY: install
install: installable ## install into PREFIX=/usr/local, below DESTDIR if that is set
	@DESTDIR="$(DESTDIR)" cmake --install $(BUILD) --prefix "$(PREFIX)"

.PHONY: installable
installable: $(BUILD)/build.ninja
ifneq ($(origin CUDA),file)
	@$(configure) -B $(BUILD)
endif
	@$(ninja) -C $(BUILD) installable

.PHONY: uninstall
uninstall: ## remove what the last `make install` put there (the same DESTDIR)
	@DESTDIR="$(DESTDIR)" ninja -C $(BUILD) uninstall

.PHONY: package
package: installable ## a Debian package: build/pacer_0.2.0_amd64.deb
	@cd $(BUILD) && cpack -G DEB

.PHONY: setup
setup: ## install the packages that are missing (Debian, Ubuntu)
	@tools/setup.sh --tests

.PHONY: clean
clean: ## remove what was built
	rm -rf $(BUILD) $(BUILD)-asan $(BUILD)-tsan $(BUILD)-fuzz

.PHONY: help
help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile

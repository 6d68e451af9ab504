# A machine without ROS, robot or accelerator: `make demo`, `make test`. On a ROS 2 installation use
# colcon instead (docs/installation.md).

PYTHON ?= python3
# The requirement that gives torch, and further pip arguments for its source. From PyPI alone an
# x86_64 machine gets the CUDA build, several GB; docs/installation.md tells how to get the CPU's.
TORCH ?= torch==2.13.0
TORCH_PIP_ARGS ?=
DEMO_ARGS ?=
PYTEST_ARGS ?=

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:

VENV := $(CURDIR)/.venv
BIN := $(VENV)/bin
PREFIX := $(CURDIR)/install/xvla_ros
STAMP := $(VENV)/.stamp
PIP := $(BIN)/python -m pip --disable-pip-version-check
PIP_INSTALL := $(PIP) install --quiet --retries 10 --timeout 60 --constraint constraints.txt
EXTRAS := policy,sim,eval,bench,test
CODE := xvla_ros scripts test launch setup.py

# Another ROS that the shell has sourced must not reach the venv's.
FOREIGN_PREFIXES := $(subst :, ,$(AMENT_PREFIX_PATH) $(CMAKE_PREFIX_PATH) $(COLCON_PREFIX_PATH))
space := $(subst ,, )
export LD_LIBRARY_PATH := $(subst $(space),:,$(strip $(filter-out \
  $(addsuffix /%,$(FOREIGN_PREFIXES)),$(subst :, ,$(LD_LIBRARY_PATH)))))
unexport AMENT_PREFIX_PATH CMAKE_PREFIX_PATH COLCON_PREFIX_PATH PYTHONPATH PYTHONHOME
unexport ROS_DISTRO ROS_VERSION ROS_PYTHON_VERSION RMW_IMPLEMENTATION _ROS_WHEELS_BOOTSTRAP_COMPLETE
export PYTHONNOUSERSITE := 1

.PHONY: help
help:
	@echo 'make demo   10 episodes of a policy on the simulated WidowX, through ROS 2 -> out/demo/'
	@echo 'make test   lint, types and the whole test suite'
	@echo 'make venv   .venv with every dependency, ROS 2 included'
	@echo 'make build  messages and package, built with colcon into install/'
	@echo 'make test-interfaces  messages of Interbotix'"'"' driver, for its tests and driver:=xs in simulation'
	@echo 'make lint   ruff and mypy only'
	@echo 'make clean  removes build/, install/, log/ and caches; make distclean .venv and out/ too'
	@echo 'Variables: PYTHON=$(PYTHON) TORCH=$(TORCH) TORCH_PIP_ARGS= DEMO_ARGS= PYTEST_ARGS='

.PHONY: preflight
preflight:
	@bash scripts/preflight.sh "$(PYTHON)" "$(VENV)"

$(STAMP)-venv: constraints.txt setup.py package.xml scripts/ros_wheels.txt \
    scripts/relocate_wheels.py | preflight
	@echo 'Installing into .venv (minutes, once) ...'
	@[ -x $(BIN)/python ] || $(PYTHON) -m venv $(VENV)
	@$(PIP_INSTALL) '$(TORCH)' $(TORCH_PIP_ARGS)
	@$(PIP_INSTALL) setuptools
	@$(PIP_INSTALL) --requirement scripts/ros_wheels.txt \
	  --no-build-isolation --editable '.[$(EXTRAS)]'
	@$(PIP_INSTALL) --no-deps lerobot  # a peer in tests; its dependencies would add much and change numpy
	@$(BIN)/python scripts/relocate_wheels.py
	@touch $@

$(STAMP)-build: $(STAMP)-venv CMakeLists.txt package.xml scripts/link_install.py \
    $(wildcard msg/*.msg srv/*.srv action/*.action config/* launch/*) | preflight
	@echo 'Building the messages (a minute, once) ...'
	@AMENT_PREFIX_PATH='$(VENV)' CMAKE_PREFIX_PATH='$(VENV)' PATH="$(BIN):$$PATH" MAKEFLAGS= \
	  $(BIN)/colcon --log-level error build --symlink-install \
	  --cmake-args -DBUILD_TESTING=OFF '-DPython3_EXECUTABLE=$(BIN)/python'
	@$(BIN)/python scripts/link_install.py '$(PREFIX)'
	@touch $@

# The driver's messages, for the tests of its back end; the real package goes first where it is.
TEST_INTERFACES := test/interbotix_xs_msgs
TEST_BUILD := $(CURDIR)/build/interbotix_xs_msgs
TEST_PREFIX := $(TEST_BUILD)/install/interbotix_xs_msgs

$(STAMP)-test-interfaces: $(STAMP)-venv scripts/link_install.py $(wildcard $(TEST_INTERFACES)/*.txt \
    $(TEST_INTERFACES)/*.xml $(TEST_INTERFACES)/msg/* $(TEST_INTERFACES)/srv/*)
	@rm -rf $(TEST_BUILD) $(VENV)/lib/python*/site-packages/_interbotix_xs_msgs*
	@if ! $(BIN)/python -c 'import interbotix_xs_msgs.srv' 2>/dev/null; then \
	  echo 'Building the messages of the tests (half a minute, once) ...'; \
	  export MAKEFLAGS= AMENT_PREFIX_PATH='$(VENV)' CMAKE_PREFIX_PATH='$(VENV)' PATH="$(BIN):$$PATH"; \
	  { cmake -S $(TEST_INTERFACES) -B $(TEST_BUILD) -DBUILD_TESTING=OFF \
	      -DCMAKE_INSTALL_PREFIX='$(TEST_PREFIX)' '-DPython3_EXECUTABLE=$(BIN)/python' \
	      -DCMAKE_C_FLAGS=-O0 -DCMAKE_CXX_FLAGS=-O0 && \
	    cmake --build $(TEST_BUILD) --parallel && \
	    cmake --install $(TEST_BUILD); } > $(VENV)/test-interfaces.log 2>&1 || \
	    { tail -n 40 $(VENV)/test-interfaces.log; exit 1; }; \
	  $(BIN)/python scripts/link_install.py '$(TEST_PREFIX)'; \
	fi
	@touch $@

.PHONY: venv build test-interfaces demo test lint pytest clean distclean
venv: $(STAMP)-venv
build: $(STAMP)-build
test-interfaces: $(STAMP)-test-interfaces

demo: build
	@$(BIN)/xvla demo $(DEMO_ARGS)

lint: venv
	$(BIN)/ruff check $(CODE)
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/mypy

pytest: build test-interfaces
	$(BIN)/python -m pytest --quiet --timeout 300 --durations 10 $(PYTEST_ARGS)

test: lint pytest

clean:
	rm -rf build install log .pytest_cache .mypy_cache .ruff_cache .hypothesis $(STAMP)-build \
	  $(STAMP)-test-interfaces $(VENV)/lib/python*/site-packages/_interbotix_xs_msgs*
	find xvla_ros test scripts -name __pycache__ -prune -exec rm -rf {} +

distclean: clean
	rm -rf .venv out

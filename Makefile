# make demo         install what is missing, build what trains, train MNIST with one rank and with two, compare
# make demo-serve   serve a classifier of Korean texts, correct it while it is asked, and see it learn
# make test         install what is missing, build, run every test
# make build        build/release/bin/sullae, with all its commands
# make python       build/python, a virtual environment with the Python package; its tests and an example (TORCH=debian:
#                   with Debian's python3-torch instead of PyPI's)
# make least        build/least, without the parts that can be left out, and a check that it trains and says what it lacks
# make bench        compare with Open MPI, Gloo and PyTorch DDP (installs them)
# make asan         build and test with AddressSanitizer and UndefinedBehaviorSanitizer
# make tsan         build and test with ThreadSanitizer
# make fuzz         run libFuzzer on the parsers of data files, a minute each
# make format       format the sources;  make lint checks them with clang-format and clang-tidy
# make spark        Spark (PyPI's) writes what Sullae reads, and reads what it writes; the example in examples/spark (installs Java)
# make docs         the reference of the public headers, in build/docs/html
# make install      install under PREFIX (/usr/local)
#
# build, test and install take TORCH=pip for the libtorch of python3's torch instead of Debian's, or TORCH=FOLDER for an
# unpacked archive of pytorch.org; they build in build/torch-pip then, or build/torch- and the folder's name.

DATA ?=
PREFIX ?= /usr/local
TORCH ?=

ifneq ($(filter python,$(MAKECMDGOALS)),)
else ifeq ($(TORCH),)
preset := release
tree := build/release
else
preset := torch
export SULLAE_TORCH_NAME := $(notdir $(abspath $(TORCH)))
export SULLAE_TORCH := $(shell scripts/torch_prefix.sh '$(TORCH)')
ifeq ($(SULLAE_TORCH),)
$(error no libtorch)
endif
tree := build/torch-$(SULLAE_TORCH_NAME)
endif

.PHONY: demo demo-serve test python least build setup bench asan tsan fuzz spark docs format lint install clean

demo:
	scripts/demo.sh $(if $(DATA),--data '$(DATA)')

demo-serve: build
	scripts/demo_serve.py $(if $(DATA),--data '$(DATA)')

build: setup
	cmake --preset $(preset)
	cmake --build --preset $(preset) --target programs

test:
	scripts/setup.sh test
	cmake --preset $(preset) -D SULLAE_WITH_PARQUET=ON
	cmake --build --preset $(preset)
	ctest --preset $(preset) || { scripts/failed_tests.sh $(tree); exit 1; }

python:
	scripts/python.sh $(TORCH)

least:
	scripts/least.sh

asan tsan:
	scripts/setup.sh test
	cmake --preset $@ -D SULLAE_WITH_PARQUET=ON
	cmake --build --preset $@
	ctest --preset $@ || { scripts/failed_tests.sh build/$@; exit 1; }

fuzz:
	scripts/fuzz.sh

spark: build
	scripts/spark.sh $(tree)/bin/sullae

bench:
	scripts/setup.sh bench
	cmake --preset release -DSULLAE_BUILD_BENCH=ON
	cmake --build --preset release
	bench/figures.sh

setup:
	scripts/setup.sh parquet

docs:
	scripts/setup.sh docs
	mkdir -p build/docs
	doxygen docs/Doxyfile

format:
	git ls-files '*.h' '*.cc' | xargs clang-format -i

lint:
	scripts/lint.sh

install: build
	cmake --install $(tree) --prefix '$(PREFIX)'

clean:
	rm -rf build

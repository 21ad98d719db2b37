# Two commands on a fresh machine: `make demo` and `make test`. Both set themselves up.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin

.PHONY: demo test test-all fuzz faults lint check figures bench-linear bench-tables setup \
  clean coverage mutants boundscheck bench-benchopt docs look dist changes test-recipes test-wheel \
  test-pythons test-lowest bench-quick release-check

# The paper's Figure 1 in small: tuned, trained, and a report to open in a browser.
demo: setup
	$(BIN)/cyclade reproduce fig1 --quick --out out/demo

test: setup
	$(BIN)/python -m pytest -n auto

# Damaged folders, killed and interrupted commands: everything is mended, or refused in one line.
# Errors (a full disk among them) and kills at every single file operation. Killed and hanging ranks,
# NaN: the others stop and name them, and the run ends as if nothing had happened. Killed fits of
# tables and killed Dask workers: the same certificate.
COUNTS = --csv docs/benchmarks/faults.csv
faults: setup
	rm -f docs/benchmarks/faults.csv
	$(BIN)/python tests/faults/faults.py --damages 200 --kills 200 --interrupts 50 $(COUNTS)
	$(BIN)/python tests/faults/operations.py $(COUNTS) \
	  --of minimize path "a fit of a table" Checkpoints "cyclade run"
	$(BIN)/python tests/faults/operations.py $(COUNTS) --every 10 \
	  --of "cyclade tune" "cyclade reproduce"
	$(BIN)/python tests/faults/ranks.py --kills 200 --hangs 3 --nans 54 --damages 200 \
	  --torchruns 3 $(COUNTS)
	$(BIN)/python tests/faults/fits.py --kills 200 --interrupts 50 --runs 200 --workers 20 \
	  --damages 200 $(COUNTS)

# With the long suites: default arguments on thirty problems, each method, both precisions.
test-all: setup
	$(BIN)/python -m pytest -n auto -m ""

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

check: lint test

# Twenty times as many random calls, good and bad, as `make test` tries.
fuzz: setup
	$(BIN)/python -m pytest -n auto tests/fuzz --hypothesis-profile=fuzz

# Lines and branches that the tests reach. Compiled kernels run outside Python and are left out; their
# text is compared with slow twins, and `make boundscheck` runs it with every index checked.
REACHED = tests/test_*.py tests/regularisers tests/files tests/fuzz tests/linear
coverage: setup
	$(BIN)/python -m pip install --quiet --disable-pip-version-check "coverage>=7.6"
	rm -rf out/coverage && mkdir -p out/coverage
	$(BIN)/python -m coverage run --rcfile tests/coverage.ini -m pytest $(REACHED)
	$(BIN)/python -m coverage combine -q --rcfile tests/coverage.ini
	$(BIN)/python -m coverage json -q --rcfile tests/coverage.ini -o out/coverage/all.json
	$(BIN)/python tests/covered.py out/coverage/all.json --csv docs/benchmarks/reach.csv

# Wrong programs, one change each: the table counts those that no test notices.
mutants: setup
	rm -f docs/benchmarks/mutants.csv
	$(BIN)/python tests/mutants.py --per 60 --csv docs/benchmarks/mutants.csv

# The kernels compiled anew with every index checked.
boundscheck: setup
	NUMBA_BOUNDSCHECK=1 NUMBA_CACHE_DIR=out/boundscheck $(BIN)/python -m pytest -n auto \
	  tests/linear/test_kernels_*.py tests/linear/test_*_trajectories.py tests/rows/test_rows_compiled.py tests/decomposition/test_factor_descents.py

# Plans and pictures of the committed results, and the numbers of the docs from the committed files.
figures: setup
	$(BIN)/python benchmarks/pages.py
	$(BIN)/python benchmarks/figures.py

# The site, in docs/_build/html: pages, API, and a gallery that runs; warnings are errors.
# About two minutes on one core. DOCS=.venv adds Sphinx to the environment of the tests.
DOCS ?= .venv-docs
docs: $(DOCS)/.ready-docs
	$(DOCS)/bin/python -m sphinx -W --keep-going -q -b html docs docs/_build/html
	$(DOCS)/bin/python docs/_extensions/links.py docs/_build/html

# The site and a report in a headless browser, wide and narrow, light and dark, and on paper:
# overflow, contrast, keys, headings; pictures of all of it in out/look.
look: docs
	$(DOCS)/bin/python docs/_extensions/look.py docs/_build/html out/look
	$(DOCS)/bin/python docs/_extensions/look.py docs/_build/html/_files/docs/results out/look \
	  --page fig1/report.html \
	  study-batch/report.html table1/report.html

# What the next release will say, from the files in changes/; VERSION=0.3.0 writes it.
changes: .venv-release/.ready
	.venv-release/bin/towncrier build $(if $(VERSION),--yes --version $(VERSION),--draft --version next)

# A wheel and an sdist in dist/, fit to be uploaded.
dist: .venv-release/.ready
	rm -rf dist
	.venv-release/bin/python -m build --outdir dist .
	.venv-release/bin/python -m twine check --strict dist/*

# The wheel in empty environments, extras one by one: what README says runs.
# CSV=docs/benchmarks/wheels.csv keeps the outcomes for docs/releasing.md.
WHEEL = $(PYTHON) tests/packaging/wheel.py dist $(if $(CSV),--csv $(CSV))
test-wheel: dist
	$(WHEEL) --constraints constraints.txt

# The same on other Pythons, with the newest versions of everything: make test-pythons PYTHONS=…
PYTHONS ?= python3.10 python3.11 python3.12 python3.13
EXTRAS  ?= core linear dask torch experiments
test-pythons: dist
	$(WHEEL) --python $(PYTHONS) --extra $(EXTRAS)

# The oldest versions that are allowed, on the oldest Python.
OLDEST ?= python3.10
test-lowest: dist
	$(WHEEL) --python $(OLDEST) --extra $(EXTRAS) --constraints constraints-lowest.txt

# The recipes with Lightning, Accelerate, transformers, polars and TensorBoard; Parquet, Zarr, HDF5.
test-recipes: .venv-recipes/.ready
	.venv-recipes/bin/python -m pytest -n auto tests/test_docs.py tests/optim/test_trainers.py \
	  tests/optim/test_launchers.py tests/linear/test_estimators.py tests/linear/test_frames.py \
	  tests/tables/test_tables_dask.py

# Linear models beside their peers, each in an environment of its own; DATA=folder adds real data.
bench-linear: setup .venv-bench/.ready .venv-bench-adelie/.ready
	$(BIN)/python benchmarks/linear.py --peer-python .venv-bench/bin/python \
	  --peer-python .venv-bench-adelie/bin/python $(if $(DATA),--data-dir $(DATA)) --out out/linear

# Twelve lines in three minutes beside the peers that are installed; fails where a ratio fell by a
# third. RECORD=1 writes the row of this version into the table of releases.
bench-quick: setup
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/quick.py --check $(if $(RECORD),--record)

# benchopt's own benchmarks, with our solvers beside those of others. FOLDER holds the checkouts.
bench-benchopt: .venv-bench-benchopt/.ready
	.venv-bench-benchopt/bin/python benchmarks/benchopt/run.py $(FOLDER) \
	  --csv docs/benchmarks/benchopt.csv

# All that a release must pass, once: out/release-check.md has the outcome.
release-check: setup
	$(BIN)/python tests/packaging/release_check.py

# Tables on Dask workers beside dask-glm, dask-ml and scikit-learn: dense, then sparse. One table.
bench-tables: .venv-bench-dask/.ready
	PYTHONPATH=src OMP_NUM_THREADS=1 .venv-bench-dask/bin/python benchmarks/distributed_tables.py \
	  --csv docs/benchmarks/tables.csv

.venv-bench/.ready: benchmarks/linear_peers/requirements.txt
.venv-bench-adelie/.ready: benchmarks/linear_peers/requirements-adelie.txt
.venv-bench-dask/.ready: benchmarks/linear_peers/requirements-dask.txt
.venv-bench-benchopt/.ready: benchmarks/benchopt/requirements.txt
.venv-bench/.ready .venv-bench-adelie/.ready .venv-bench-dask/.ready .venv-bench-benchopt/.ready:
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check -r $<
	touch $@

$(DOCS)/.ready-docs: EXTRA = docs
.venv-release/.ready: EXTRA = release
.venv-recipes/.ready: EXTRA = recipes
$(DOCS)/.ready-docs .venv-release/.ready .venv-recipes/.ready: pyproject.toml constraints.txt
	@echo "Installing cyclade and what its extra '$(EXTRA)' needs into $(@D)"
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt \
	  -e ".[$(EXTRA)]"
	touch $@

setup: $(VENV)/.ready

# Rebuilt only when what it is made from changes.
$(VENV)/.ready: pyproject.toml constraints.txt
	@echo "Installing cyclade, PyTorch and what the tests need into $(VENV) (about 2 GB, once)"
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	touch $@

clean:
	rm -rf $(VENV) .venv-bench .venv-bench-adelie .venv-bench-dask .venv-bench-benchopt .venv-docs .venv-release \
	  .venv-recipes dist build out \
	  docs/_build docs/api/generated docs/gallery \
	  .pytest_cache .mypy_cache .ruff_cache .hypothesis

"""How the site is built; `make docs` does it."""

from __future__ import annotations

import importlib.util
import os
import sys
import warnings
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE / "_extensions"), str(HERE.parent / "benchmarks")]
os.environ.setdefault("OMP_NUM_THREADS", "1")  # the gallery's fits are small

import cyclade  # noqa: E402

project = "Cyclade"
author = "The Cyclade developers"
copyright = "2026, the Cyclade developers"
version = release = cyclade.__version__
ABOUT = tomllib.loads((HERE.parent / "pyproject.toml").read_text("utf-8"))["project"]
REPOSITORY = ABOUT["urls"]["Repository"]  # the one place of the address

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "plain_docstrings",
    "numpydoc",
    "sphinx_design",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
    "counted",  # line counts of code that pages speak of
    "repository",  # links to files of the repository
    "api_links",  # names of classes lead to their API pages
]
templates_path = ["_templates"]
exclude_patterns = ["_build", "_extensions", "gallery/**/*.ipynb", "results/**"]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
nitpicky = False
default_role = "code"  # single backticks in docstrings mean code
highlight_language = "none"
pygments_style = "tango"

myst_enable_extensions = ["colon_fence", "dollarmath", "fieldlist"]
myst_heading_anchors = 3

autosummary_generate = True
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # the signatures of docstrings are enough
autodoc_preserve_defaults = True
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

LEFT_OUT = [name for name in ("dask",) if importlib.util.find_spec(name) is None]
for name in LEFT_OUT:
    print(f"gallery: {name} is not installed, so scripts named after it are left out")

sphinx_gallery_conf = {
    "examples_dirs": [str(HERE.parent / "examples" / "gallery")],
    "gallery_dirs": ["gallery"],
    "filename_pattern": r"\.py$",
    "ignore_pattern": "|".join([r"__init__\.py", *(f"_{name}_" for name in LEFT_OUT)]),
    "thumbnail_size": (480, 250),  # most pictures are wide
    "within_subsection_order": "FileNameSortKey",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_signature": False,
    "remove_config_comments": True,
    "min_reported_time": 0,
    "write_computation_times": False,
    "image_scrapers": ("matplotlib",),
    "matplotlib_animations": False,
    "reset_modules": ("matplotlib", "gallery_style.reset"),
}
warnings.filterwarnings("error", category=RuntimeWarning)  # an example that warns is no example

warnings.filterwarnings("ignore", "Unknown section Example")  # plain_docstrings renames it

html_theme = "pydata_sphinx_theme"
html_title = "Cyclade"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = ["print.js", "tables.js"]
html_extra_path = []
html_show_sphinx = False
html_copy_source = False
html_theme_options = {
    "logo": {"text": "Cyclade"},
    "show_prev_next": False,
    "navbar_align": "left",
    "navbar_end": ["version-switcher", "theme-switcher", "navbar-icon-links"],
    "switcher": {"json_url": "_static/switcher.json", "version_match": release},
    "icon_links": [
        {"name": "Source", "url": REPOSITORY, "icon": "fa-brands fa-github"},
        {"name": "Issues", "url": f"{REPOSITORY}/issues", "icon": "fa-solid fa-circle-question"},
    ],
    "header_links_before_dropdown": 7,
    "secondary_sidebar_items": {  # pages with wide tables and pictures take its room
        "**": ["page-toc"],
        **{page: [] for page in ("index", "choosing", "comparison", "methods", "moving")},
        **{page: [] for page in ("when-not", "gallery/index", "api/index")},
    },
    "footer_start": ["copyright"],
    "footer_end": [],
    "navigation_with_keys": False,
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
    "show_toc_level": 2,
}
html_sidebars = {"index": [], "comparison": [], "when-not": []}
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
suppress_warnings = ["config.cache"]  # the gallery's settings hold functions

"""`python -m cyclade.cli`."""

import sys

from cyclade.cli import main

if __name__ == "__main__":
    sys.exit(main())

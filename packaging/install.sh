#!/bin/sh
# Install newnormal into a folder of its own: the steps of the Dockerfile, and of .ci/run's check of them.
#
#   packaging/install.sh SOURCE TARGET [EXTRAS]
#
# SOURCE is a wheel, an sdist, or a clone; TARGET is made, and must be empty if it is there. EXTRAS are such as
# "parquet,excel". PYTHON chooses the interpreter; CONSTRAINTS is a file with exact versions, if there is one.
set -eu

if [ "$#" -lt 2 ]; then
  echo "usage: $0 SOURCE TARGET [EXTRAS]" >&2
  exit 2
fi
source=$1
target=$2
extras=${3:-}
python=${PYTHON:-python3}

"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
  echo "newnormal needs Python 3.11 or newer, found $("$python" --version); set PYTHON to another one" >&2
  exit 1
}
if [ -d "$target" ] && [ -n "$(ls -A "$target")" ]; then
  echo "expected an empty folder, found files in $target" >&2
  exit 1
fi

"$python" -m venv "$target"
if [ -n "${CONSTRAINTS:-}" ]; then
  PIP_CONSTRAINT=$CONSTRAINTS
  export PIP_CONSTRAINT
fi
"$target/bin/python" -m pip install --quiet --no-cache-dir --disable-pip-version-check \
  "newnormal${extras:+[$extras]} @ $(
    "$python" -c 'import pathlib, sys; print(pathlib.Path(sys.argv[1]).resolve().as_uri())' "$source"
  )"

# What it installed runs, and can be imported by every user.
"$target/bin/newnormal" --version

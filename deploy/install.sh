#!/bin/sh
# Installs privalue into an environment of its own, and tries it.
#
#   sh deploy/install.sh SOURCE FOLDER
#
# SOURCE is a wheel or a checkout, with extras if they are wanted: '.[postgres]'. FOLDER must not be
# there yet. What pip should do otherwise, it reads from its own variables: on a machine without a
# network, PIP_NO_INDEX=1 and PIP_FIND_LINKS=FOLDER-OF-WHEELS. PYTHON chooses the interpreter.
set -eu
if [ "$#" -ne 2 ] || [ -e "$2" ]; then
  echo "usage: sh deploy/install.sh SOURCE FOLDER; FOLDER must not be there yet" >&2
  exit 2
fi
source=$1
folder=$2
"${PYTHON:-python3}" -m venv "$folder"
"$folder/bin/python" -m pip install --quiet --disable-pip-version-check "$source"
# The whole journey on made-up people.
trial=$(mktemp -d)
trap 'rm -rf "$trial"' EXIT
"$folder/bin/privalue" --quiet demo --out "$trial/demo" --json >"$trial/result.json"
"$folder/bin/privalue" --version

# shellcheck shell=bash
# Functions shared by the scripts. This file is sourced, not run.

unset CDPATH
root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd -P)

# Progress and errors go to stderr; stdout is for data.
say() { printf '%s\n' "$*" >&2; }

# Prints a script's help, which is the comment below its first line.
usage() { awk 'NR > 1 && !/^#/ { exit } NR > 1 { sub(/^# ?/, ""); print }' "$0"; }

# Checks the first argument of a script that needs a directory for its data.
wants_directory() {
    case "${1:-}" in
        -h | --help) usage; exit 0 ;;
        '' | -*) usage >&2; exit 2 ;;
    esac
}

# Reports a problem with the environment and exits with 3, like the program itself.
environment_error() {
    say "error: $*"
    exit 3
}

# Prints a field shared by all packages of the workspace, e.g. version, or nothing if the field is missing.
package_field() { sed -n '/^\[workspace.package\]/,/^$/ s/^'"$1"' = "\(.*\)"$/\1/p' "$root/Cargo.toml"; }

# Returns whether version $1 is at least version $2.
at_least() {
    [ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | sed -n 1p)" = "$2" ]
}

# Prints the directory for the suite's state between runs, as determined by the program, or nothing if there is none.
state_directory() {
    if [ -n "${ZKLOCKBENCH_STATE_DIR:-}" ]; then
        printf '%s\n' "$ZKLOCKBENCH_STATE_DIR"
    elif [ -n "${XDG_STATE_HOME:-}" ]; then
        printf '%s/zklockbench\n' "$XDG_STATE_HOME"
    elif [ -n "${HOME:-}" ]; then
        printf '%s/.local/state/zklockbench\n' "$HOME"
    fi
}

# Prints the version of the ZooKeeper release unpacked in directory $1; fails if there is none.
release_version() {
    local jar
    for jar in "$1"/lib/zookeeper-[0-9]*.jar "$1"/zookeeper-[0-9]*.jar; do
        [ -f "$jar" ] || continue
        jar=${jar##*/zookeeper-}
        printf '%s\n' "${jar%.jar}"
        return 0
    done
    return 1
}

processors() { nproc 2>/dev/null || sysctl -n hw.ncpu; }

# Packages for the image that scripts/base-image builds
image_packages=(default-jre-headless libzookeeper-java libslf4j-java ca-certificates bash passwd)

has_image_packages() {
    [ "$(dpkg-query -W -f '${db:Status-Status}\n' "${image_packages[@]}" 2>/dev/null | grep -cx installed)" \
        -eq "${#image_packages[@]}" ]
}

rust_version_needed() { sed -n 's/^rust-version = "\(.*\)"$/\1/p' "$root/Cargo.toml"; }

# Prints the version of the cargo in use, or nothing if there is none. Runs in the repository, because rustup
# selects a toolchain by directory.
cargo_version() {
    (cd -- "$root" && "${CARGO:-cargo}" --version 2>/dev/null) | sed -n 's/^cargo \([0-9.]*\).*/\1/p'
}

cargo_is_new_enough() {
    local have
    have=$(cargo_version)
    [ -n "$have" ] && at_least "$have" "$(rust_version_needed)"
}

# Selects a recent enough cargo: from the PATH, otherwise rustup's default, otherwise rustup's stable toolchain. Never
# overrides CARGO, CARGO_HOME or RUSTUP_TOOLCHAIN.
use_rust() {
    cargo_is_new_enough && return 0
    [ -z "${CARGO:-}" ] || return 1
    local bin="${CARGO_HOME:-${HOME:-}/.cargo}/bin"
    [ -x "$bin/cargo" ] && export PATH="$bin:$PATH"
    cargo_is_new_enough && return 0
    [ -z "${RUSTUP_TOOLCHAIN:-}" ] || return 1
    RUSTUP_TOOLCHAIN=stable cargo_is_new_enough || return 1
    export RUSTUP_TOOLCHAIN=stable
}

# Runs cargo in the repository, from any working directory.
cargo_here() { (cd -- "$root" && "${CARGO:-cargo}" "$@"); }

# Prints cargo's target directory.
target_directory() {
    cargo_here metadata --locked --no-deps --format-version 1 |
        sed -n 's/.*"target_directory":"\([^"]*\)".*/\1/p'
}

# Prints the program that a script measures with: ZKLOCKBENCH, or by default the release build.
program_to_measure_with() {
    local program=${ZKLOCKBENCH:-$(target_directory)/release/zklockbench}
    [ -x "$program" ] || environment_error "$program is missing: build it with cargo build --release"
    printf '%s\n' "$program"
}

# Fails unless jq is installed, which the script needs to read the results.
needs_jq() { command -v jq >/dev/null || environment_error "jq is missing: run apt-get install jq"; }

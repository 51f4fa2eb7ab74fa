# Shared by lab/scripts/test-aarch64 and lab/scripts/test-processors, which source this file and set $lane to their
# name. Everything is fetched without root.
top=$PWD
python=${VENV:-.venv}/bin/python
emulator=$PWD/build/emulator

say() { printf '\n== %s (%d s)\n' "$1" "$SECONDS" >&2; }
cannot_run() {
    echo "$lane: $1" >&2
    exit 77
}

fetch() { # architecture, folder, packages...
    local arch=$1 folder=$2 state=$emulator/apt-$1
    shift 2
    mkdir -p "$state/lists/partial" "$state/cache/archives/partial" "$folder/debs"
    local apt=(apt-get -qq -oAPT::Architecture="$arch" -oAPT::Architectures="$arch"
        -oDir::State::Lists="$state/lists" -oDir::Cache="$state/cache"
        -oDir::State::status=/dev/null -oAPT::Sandbox::User=
        -oAcquire::http::Timeout=20 -oAcquire::https::Timeout=20 -oAcquire::Retries=1)
    "${apt[@]}" update || cannot_run "no package lists for $arch; this needs Debian's mirror"
    (cd "$folder/debs" && "${apt[@]}" download "$@") || cannot_run "not all packages of $arch are there; it is made for Debian 12"
    for deb in "$folder"/debs/*.deb; do dpkg-deb -x "$deb" "$folder"; done
}

fetch_emulator() {
    [ "$(uname -m)" = x86_64 ] || cannot_run "this machine is $(uname -m), the lane is for x86_64; here: make test"
    for program in apt-get dpkg-deb; do
        command -v $program >/dev/null || cannot_run "$program is missing; the lane needs Debian"
    done
    [ -e "$emulator/done" ] && return
    say "emulator"
    fetch amd64 "$emulator" qemu-user libglib2.0-0 libpcre2-8-0 libcapstone4 liburing2
    touch "$emulator/done"
}

# Print the library that makes the emulator nearly four times as fast on an Intel (the C file says why), or nothing
# without a compiler.
faster_multiply_add() {
    command -v gcc >/dev/null && grep -qw fma /proc/cpuinfo || return 0
    gcc -O2 -Wall -mavx -mfma -shared -fPIC -o "$emulator/libfma.so" lab/benchmarks/processors/fused_multiply_add.c &&
        echo "$emulator/libfma.so"
}

write_emulated_python() { # file, program of the emulator, its arguments
    cat >"$1" <<END
#!/bin/sh
export LD_LIBRARY_PATH="$emulator/usr/lib/x86_64-linux-gnu:$emulator/lib/x86_64-linux-gnu"
export LD_PRELOAD="$(faster_multiply_add)"
exec "$emulator/usr/bin/$2" -U PLUGIN,LD_PRELOAD -E LD_LIBRARY_PATH= $3 "\$@"
END
    chmod +x "$1"
}

prepare() { # arguments of prepare.py
    $python -m whisper_hailo_lab.processors.prepare "$work/models" "$@"
}

# What computes, and what decides on what was computed. Left out, since an emulated processor is 20 to 100 times slower:
# conversion and its checks, HEF and device tests (bytes and stand-ins, the same on every processor), bench, cli, live,
# training.
compute_tests() { # the unit tests that compute
    printf '%s\n' tests/unit/core tests/unit/decoding tests/unit/transcription/longform \
        tests/unit/audio/test_{windows,log_mel}.py \
        tests/unit/backends/test_{state,onnx,onnx_int8}.py
}

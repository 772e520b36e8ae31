# Compiles a Java driver on first use and after changes, and starts it. Sourced by the drivers' `run`:
#
#   start NAME CLASS [DIR]    uses the jars in DIR, otherwise Debian's jars
start() {
    local name=$1 class=$2 here java=/usr/share/java jar jars compiled work sources
    here=$(cd -- "$(dirname -- "${BASH_SOURCE[1]}")" && pwd -P)
    if [ -n "${3:-}" ]; then
        jars="$3/*"
    else
        jars=
        for jar in zookeeper-recipes-lock curator-client curator-framework curator-recipes guava zookeeper zookeeper-jute \
            slf4j-api slf4j-nop netty-all netty-buffer netty-codec netty-common netty-handler netty-resolver netty-transport \
            netty-transport-native-epoll netty-transport-native-unix-common jackson-core jackson-databind jackson-annotations \
            metrics-core snappy-java; do
            [ ! -e "$java/$jar.jar" ] || jars="$jars:$java/$jar.jar"
        done
    fi
    sources=("$here"/*.java "$here"/../java/*.java)
    compiled="${XDG_CACHE_HOME:-$HOME/.cache}/zklockbench/$name-$(cat -- "${sources[@]}" <(echo "$jars") | sha256sum | cut -c1-16)"
    if [ ! -e "$compiled/$class.class" ]; then
        work=$(mktemp -d)
        javac -nowarn -d "$work" -cp "$jars" "${sources[@]}" >&2
        mkdir -p -- "$(dirname -- "$compiled")"
        # Several processes may compile at once; the first result is kept.
        mv -T -- "$work" "$compiled" 2>/dev/null || rm -rf -- "$work"
    fi
    # By default, HotSpot prints its warnings on standard output.
    exec java -XX:+DisplayVMOutputToStderr -XX:+UseSerialGC -Xss512k -cp "$compiled:$jars" "$class"
}

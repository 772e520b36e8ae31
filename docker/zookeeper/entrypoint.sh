#!/usr/bin/env bash
# Writes zoo.cfg and myid from the official image's variables, then runs the server in place of this script.
# docker/README.md lists the supported variables.
set -euo pipefail

config="$ZOO_CONF_DIR/zoo.cfg"
jars=/usr/share/java

setting() { printf '%s=%s\n' "$1" "$2" >>"$config"; }

: >"$config"
setting dataDir "$ZOO_DATA_DIR"
setting dataLogDir "$ZOO_DATA_LOG_DIR"
setting tickTime "${ZOO_TICK_TIME:-2000}"
setting initLimit "${ZOO_INIT_LIMIT:-5}"
setting syncLimit "${ZOO_SYNC_LIMIT:-2}"
setting maxClientCnxns "${ZOO_MAX_CLIENT_CNXNS:-60}"
setting standaloneEnabled "${ZOO_STANDALONE_ENABLED:-true}"
setting admin.enableServer "${ZOO_ADMINSERVER_ENABLED:-true}"
[ -z "${ZOO_4LW_COMMANDS_WHITELIST:-}" ] || setting 4lw.commands.whitelist "$ZOO_4LW_COMMANDS_WHITELIST"
for extra in ${ZOO_CFG_EXTRA:-}; do
    # Debian has no package for Prometheus metrics, and a server configured to export them does not start.
    case "$extra" in
        metricsProvider.*) [ -f "$jars/zookeeper-prometheus-metrics.jar" ] || continue ;;
    esac
    printf '%s\n' "$extra" >>"$config"
done
for server in ${ZOO_SERVERS:-server.1=localhost:2888:3888;2181}; do
    printf '%s\n' "$server" >>"$config"
done
[ -f "$ZOO_DATA_DIR/myid" ] || echo "${ZOO_MY_ID:-1}" >"$ZOO_DATA_DIR/myid"

# As in zkServer.sh, one variable contains all flags.
# shellcheck disable=SC2086
exec java "-Xmx${ZK_SERVER_HEAP:-1000}m" ${SERVER_JVMFLAGS:-} \
    -Dorg.slf4j.simpleLogger.defaultLogLevel=info -Dorg.slf4j.simpleLogger.showDateTime=true \
    -Dzookeeper.jmx.log4j.disable=true \
    -cp "$jars/zookeeper.jar:$jars/slf4j-simple.jar" \
    org.apache.zookeeper.server.quorum.QuorumPeerMain "$config"

# One broker of the tests, the same in a container and in a process of this machine: formats the storage of $DIR, starts the broker, and
# ends it with the test program. $LIB has the jars, $OPTIONS the arguments of the JVM. The test program lives as long as it holds the lock
# $LOCK, or, where that is empty, standard input. Further arguments go to the formatter. Data stay where there is a file `keep`.
set -uf
# What the JVM of this broker is told besides.
[ ! -e "$DIR/java" ] || OPTIONS="$OPTIONS $(cat "$DIR/java")"
java="java $OPTIONS -Xshare:auto -cp $LIB/*"
$java kafka.tools.StorageTool format -t "$CLUSTER" -c "$DIR/server.properties" "$@" >"$DIR/format.log" 2>&1 </dev/null || exit 1
$java kafka.Kafka "$DIR/server.properties" >"$DIR/broker.log" 2>&1 </dev/null &
echo started
if [ -n "$LOCK" ]; then flock "$LOCK" true; else cat >/dev/null; fi
kill -9 $!
wait
[ -e "$DIR/keep" ] || rm -rf "$DIR/data"

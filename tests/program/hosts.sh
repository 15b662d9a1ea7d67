#!/bin/sh
# hosts.sh -- mtorch --hosts: a training on two machines (network namespaces) goes on after a fault
#
#   sh tests/program/hosts.sh [PROGRAM | BUILD] [all]     all: also the cut link, which takes half a minute
#
# Prints `ok` or `not ok` for each check and a count; the status is 0 if all are ok, 77 without namespaces or mpirun.
set -u
. "$(dirname -- "$0")/checks.sh"
if ! command -v mpirun >/dev/null; then echo 'skipped: there is no mpirun' && exit 77; fi
a=mta$$ b=mtb$$
end() {
  for name in $a $b; do
    ip netns pids $name 2>/dev/null | xargs -r kill -9
    ip netns del $name 2>/dev/null
  done
  rm -rf "$folder"
}
trap end EXIT
if ! { ip netns add $a && ip netns add $b && ip link add $a type veth peer name $b && ip link set $a netns $a &&
  ip link set $b netns $b; } 2>/dev/null; then
  echo 'skipped: network namespaces are not permitted here' && exit 77
fi
for name in $a $b; do
  ip -n $name link set $name up && ip -n $name link set lo up
done
ip -n $a addr add 10.97.53.1/24 dev $a && ip -n $b addr add 10.97.53.2/24 dev $b

# What ssh does elsewhere: agent ADDRESS COMMAND.. runs it on the other machine.
cat >agent <<END
#!/bin/sh
shift
exec ip netns exec $b unshare --uts sh -c "hostname second; \$*"
END
chmod +x agent
export OMPI_MCA_plm_rsh_agent="$folder/agent" OMP_NUM_THREADS=1 LUA_PATH="$here/tests/lua/?.lua;;"
# train FLAGS FAULT RANK STEP TIMEOUT: the training of test_dist_faults.lua; its parameters are then in the file end.
train() {
  flags=$1
  shift
  ip netns exec $a unshare --uts sh -c 'hostname first; exec "$@"' sh \
    "$program" $flags "$here/tests/lua/test_dist_faults.lua" --process "$folder" "$@"
}
two='--hosts 10.97.53.1:2,10.97.53.2:2'

train '--processes 4' none 0 0 30 && mv end whole && rm -f state*
train "$two --restarts 1" exit 3 11 30 2>err
is 'two machines: a process fails, all are started again, status' $? 0
has '.. it is named with its machine' err \
  'process 3 of 4 on second ended with status 3; its last call was '
has '.. and the restart' err '; restart 1 of 1'
if cmp -s whole end; then ok '.. the parameters of one machine'; else not_ok 'the parameters differ' ''; fi

if [ "${2:-}" = all ]; then
  rm -f state* pid.* end
  train "$two --restarts 3" slow 0 0 3 2>err &
  pid=$!
  while [ ! -e pid.3 ] || [ ! -e state ]; do sleep 0.1; done
  ip -n $b link set $b down
  for _ in $(seq 100); do
    if grep -q 'restart 1 of 3' err; then break; fi
    sleep 0.1
  done
  has 'the link is cut: the processes behind it are named within the deadline and some seconds' err 'did not answer'
  has '.. and started again' err '; restart 1 of 3'
  ip -n $b link set $b up
  wait $pid
  is '.. and it goes on where the link is back, status' $? 0
  if cmp -s whole end; then ok '.. the parameters of one machine'; else not_ok 'the parameters differ' "$(cat err)"; fi
fi
summary

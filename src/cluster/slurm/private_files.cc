#include <fmt/format.h>

#include "cluster/slurm/private_cluster.h"

namespace sullae::cluster {
namespace {

// What starts daemons has next to nothing in PATH.
constexpr const char* kScriptStart = R"(#!/bin/sh
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
export SLURM_CONF='{0}/slurm.conf'
)";

}  // namespace

// head is always there, for coordinators; the others are Slurm's cloud nodes.
std::string slurm_conf(const PrivateClusterOptions& options, const PrivatePorts& ports,
                       const std::string& host, const std::string& user) {
  const auto folder = options.folder.string();
  std::string text = fmt::format(
      R"(# Written by `sullae cluster up`, and again by the next one.
ClusterName=sullae
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
# Requeued jobs wait for as long as credentials live: longer than the 10 s for which Slurm tries to end them on nodes that do not
# answer. It would take nodes from what has begun on them since, and crash (22.05).
AuthInfo=socket={folder}/run/munge.sock,cred_expire=12
CryptoType=crypto/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldPidFile={folder}/run/slurmctld.pid
SlurmdPidFile={folder}/run/%n.pid
SlurmctldLogFile={folder}/log/slurmctld.log
SlurmdLogFile={folder}/log/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
TreeWidth=65533
CommunicationParameters=NoAddrCache
SlurmdParameters=config_overrides
ReturnToService=2
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=bf_interval=2,sched_interval=2,preempt_youngest_first,batch_sched_delay=1
PriorityType=priority/multifactor
PriorityWeightPartition=1000
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
KillWait=15
SlurmdTimeout=10
MessageTimeout=30
MaxJobCount=20000
MinJobAge=86400
PrivateData=cloud
SuspendProgram={folder}/suspend
ResumeProgram={folder}/resume
ResumeFailProgram={folder}/repair
SuspendTime={idle}
SuspendTimeout=5
ResumeTimeout=30
ResumeRate=0
SuspendRate=0
SlurmctldParameters=idle_on_node_suspend,cloud_dns,power_save_interval=2,power_save_min_interval=0
SuspendExcNodes=head
NodeName=head NodeHostname={host} NodeAddr=127.0.0.1 Port={head} CPUs=256 RealMemory=1 State=UNKNOWN
)",
      fmt::arg("host", host), fmt::arg("user", user), fmt::arg("folder", folder),
      fmt::arg("port", ports.controller), fmt::arg("idle", options.idle.count()),
      fmt::arg("head", ports.nodes.at(0)));
  for (int node = 1; node <= options.nodes; ++node) {
    text += fmt::format(
        "NodeName=n{} NodeHostname={} NodeAddr=127.0.0.1 Port={} CPUs={} RealMemory=1 "
        "State=CLOUD\n",
        node, host, ports.nodes.at(static_cast<std::size_t>(node)), options.cpus);
  }
  text += fmt::format(
      R"(PartitionName=low Nodes=n[1-{0}] Default=YES MaxTime=UNLIMITED PriorityTier=1 GraceTime=10
PartitionName=high Nodes=n[1-{0}] MaxTime=UNLIMITED PriorityTier=10 PreemptMode=OFF
PartitionName=coordinators Nodes=head MaxTime=UNLIMITED PriorityTier=20 PreemptMode=OFF
)",
      options.nodes);
  return text;
}

// Without the redirection nodes come up, and their jobs are held.
std::string resume_script(const std::filesystem::path& folder) {
  return fmt::format(kScriptStart, folder.string()) +
         fmt::format(R"sh(for node in $(scontrol show hostnames "$1"); do
  mkdir -p '{0}'/spool/"$node"
  setsid slurmd -N "$node" -b -f "$SLURM_CONF" </dev/null >>'{0}'/log/power.log 2>&1
done
)sh",
                     folder.string());
}

std::string suspend_script(const std::filesystem::path& folder) {
  return fmt::format(kScriptStart, folder.string()) +
         fmt::format(R"sh(for node in $(scontrol show hostnames "$1"); do
  pid=$(cat '{0}'/run/"$node".pid) && grep -qF '{0}/' /proc/"$pid"/cmdline && kill "$pid"
done 2>>'{0}'/log/power.log
exit 0
)sh",
                     folder.string());
}

// One that crashes, or is killed, goes on from what is in `state`. An end of its own, such as that
// of an error in its files, is one.
std::string controller_script(const std::filesystem::path& folder) {
  return fmt::format(kScriptStart, folder.string()) +
         fmt::format(R"sh(exec </dev/null >>'{0}'/log/controller.log 2>&1
{{
  # One that has just been started has no file with its number yet.
  trap 'kill "$!"; exit 143' TERM
  while :; do
    slurmctld -D "$@" -f "$SLURM_CONF" &
    wait "$!"
    code=$?
    [ "$code" -gt 128 ] || exit "$code"
    echo "$(date): slurmctld ended with exit code $code, and is started again"
    set --
    sleep 1
  done
}} &
echo $! >'{0}'/run/controller.pid
)sh",
                     folder.string());
}

// A node that did not start, or was lost, would stay down for ever. Slurm asks for it in two ways,
// the second when the node may have begun again. Steps outlive the daemon of their node.
std::string repair_script(const std::filesystem::path& folder) {
  return fmt::format(kScriptStart, folder.string()) +
         fmt::format(R"sh(for node in $(scontrol show hostnames "$1"); do
  case $(sinfo -h -n "$node" -o %T) in down*) ;; *) continue ;; esac
  for process in $(grep -lszxF "SLURMD_NODENAME=$node" /proc/[0-9]*/environ); do
    grep -qszxF "SLURM_CONF=$SLURM_CONF" "$process" || continue
    pid=${{process#/proc/}}
    kill -9 "${{pid%/environ}}"
  done
  scontrol update nodename="$node" state=power_down_force reason=repair ||
    scontrol update nodename="$node" state=resume
done >>'{0}'/log/power.log 2>&1
)sh",
                     folder.string());
}

}  // namespace sullae::cluster

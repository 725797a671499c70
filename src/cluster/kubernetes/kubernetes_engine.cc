#include "cluster/kubernetes/kubernetes_engine.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <utility>

#include "base/ascii.h"
#include "base/environment.h"
#include "base/hash.h"
#include "base/local_time.h"
#include "base/version.h"
#include "cluster/coordinator.h"
#include "sullae/error.h"

namespace sullae::cluster {
namespace {

// Where pods have the shared storage, and what this job is.
constexpr const char* kJobs = "/sullae/jobs";
constexpr const char* kConfig = "/sullae/config";

// JSON is YAML.
std::string yaml_text(const std::string& text) { return nlohmann::json(text).dump(); }

std::string indented(const std::string& text, int spaces) {
  std::istringstream lines(text);
  std::string result;
  for (std::string line; std::getline(lines, line);)
    result +=
        line.empty() ? "\n" : std::string(static_cast<std::size_t>(spaces), ' ') + line + "\n";
  return result;
}

// Of Kubernetes's names (RFC 1123): lower case letters, digits and dashes.
std::string name_of(std::string_view text) {
  std::string name = to_lower(text);
  for (char& c : name) {
    if (c == '_' || c == '.') c = '-';
  }
  return name;
}

// Of pods, whose names are at most 63 long and end with "-coordinator-0-0-" or "-workers-0-…-", and
// five letters.
std::string pod_name_of(const std::string& job) {
  constexpr std::size_t kMost = 40;
  const std::string name = name_of(job);
  const auto is_letter = [](char c) {
    return c >= 'a' && c <= 'z';
  };
  const auto is_digit = [](char c) {
    return c >= '0' && c <= '9';
  };
  const bool is_good =
      !name.empty() && name.size() <= kMost && is_letter(name.front()) && name.back() != '-' &&
      std::ranges::all_of(name, [&](char c) { return is_letter(c) || is_digit(c) || c == '-'; });
  if (!is_good)
    throw InputError(
        fmt::format("--name {}: Kubernetes has names of at most {} letters, digits and dashes, "
                    "from a letter to a letter or a digit",
                    job, kMost));
  return name;
}

// Nobody counts the jobs of a folder that is reached from pods alone: what is the same job goes on
// where it was.
std::string own_name_of(const Job& job) {
  return fmt::format("{}-{}", name_of(job.name), fnv1a(to_toml(job)) % 1'000'000'000);
}

std::string folder_of(const Job& job) { return fmt::format("{}/{}", kJobs, own_name_of(job)); }

// Pods have a time zone of their own.
Job with_zone(Job job) {
  if (!job.deadline.empty())
    job.deadline = fmt::format("{:%Y-%m-%dT%H:%M:%S}+0000",
                               fmt::gmtime(parse_time(job.deadline, "--deadline")));
  return job;
}

void check_volumes(const Job& job) {
  std::set<std::string> names;
  for (const auto& [name, path] : job.mounts) {
    const std::string volume = name_of(name);
    const bool is_good = volume.front() != '-' && volume.back() != '-' &&
                         !volume.starts_with("sullae-") && names.insert(volume).second;
    if (!is_good)
      throw InputError(fmt::format(
          "--mount {}=…: Kubernetes has volumes by names of letters, digits and dashes, "
          "and this one would be '{}': expected one that no other mount has, from a "
          "letter or a digit to a letter or a digit, and none of Sullae's (sullae-…)",
          name, volume));
  }
}

std::string image_of(const Job& job) {
  std::string image = std::string("sullae:") + kVersion;
  for (const auto& option : job.engine_options) {
    const std::string_view key = "image=";
    if (!option.starts_with(key)) {
      throw InputError(fmt::format(
          "--engine-option {}: expected image=NAME; the rest is for editing the YAML, or kubectl",
          option));
    }
    image = option.substr(key.size());
    if (image.empty()) throw InputError("--engine-option image=: expected the name of an image");
  }
  return image;
}

class KubernetesEngine final : public Engine {
 public:
  explicit KubernetesEngine(Settings settings) : settings_(std::move(settings)) {}

  std::string name() const override { return "kubernetes"; }
  // Each pod sees all of its node's.
  bool gives_own_cpus() const override { return false; }

  std::string describe(const Submission& submission) const override {
    const Job job = with_zone(submission.job);
    check_volumes(job);
    if (!job.after.empty())
      throw InputError(
          "--after: Kubernetes starts what is applied; apply this one when the other has ended");
    if (!job.begin.empty())
      throw InputError("--begin: Kubernetes starts what is applied; a CronJob applies it later");
    const std::string name = pod_name_of(job.name);
    Settings inside{.jobs = kJobs, .address = fmt::format("{0}-coordinator-0-0.{0}", name)};
    std::string text = fmt::format(
        R"(# kubectl apply -f -    needs JobSet (https://jobset.sigs.k8s.io) and a claim "sullae-jobs" of storage that pods share
apiVersion: v1
kind: ConfigMap
metadata:
  name: {config}
immutable: true
data:
  job.toml: |
{job}  cluster.toml: |
{cluster}---
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata:
  name: {name}
spec:
  network:
    enableDNSHostnames: true
    publishNotReadyAddresses: true
  successPolicy:
    operator: All
    targetReplicatedJobs: [coordinator]
  replicatedJobs:
)",
        fmt::arg("name", name), fmt::arg("config", own_name_of(job)),
        fmt::arg("job", indented(to_toml(job), 4)),
        fmt::arg("cluster", indented(to_toml(inside), 4)));
    text += replicated_job({.role = "coordinator",
                            .command = "coordinate",
                            .pods = 1,
                            .cpus = 1,
                            .retries = job.attempts - 1,
                            .is_coordinator = true},
                           job);
    // As many as there may be: those for which there is room run, and join.
    text += replicated_job({.role = "workers",
                            .command = "work --stay",
                            .pods = job.max_nodes,
                            .cpus = job.ranks_per_node * job.cpus_per_rank,
                            .retries = 1'000'000},
                           job);
    return text;
  }

  std::string this_job() const override { return process_environment()("HOSTNAME").value_or(""); }
  bool knows_times() const override { return false; }
  bool asks_for_workers() const override { return false; }
  void requeue(const std::string&) override {}
  void cancel(const std::vector<std::string>& ids) override {
    if (!ids.empty()) throw cannot("kubectl delete jobset ends a job");
  }
  std::vector<EngineJob> jobs(const std::string&, const std::string&) override { return {}; }

  void check(const Submission& submission) override { describe(submission); }
  std::string submit(const Submission&) override {
    throw cannot("sullae jobs submit --dry-run prints what kubectl apply -f - takes");
  }
  std::vector<Node> nodes() override { throw cannot("kubectl get nodes shows them"); }

 private:
  static InputError cannot(const char* what) {
    return InputError(fmt::format("--engine kubernetes: {}", what));
  }

  struct Pods {
    const char* role;
    const char* command;
    int pods;
    int cpus;
    int retries;
    bool is_coordinator = false;
  };

  std::string replicated_job(const Pods& pods, const Job& job) const {
    // The coordinator's exit code tells a job that goes on from one that is over.
    const std::string policy = !pods.is_coordinator ? ""
                                                    : fmt::format(R"(        podFailurePolicy:
          rules:
          - action: FailJob
            onExitCodes:
              containerName: sullae
              operator: NotIn
              values: [{}, 137, 143]
)",
                                                                  kGoesOn);
    // Another JobSet of the same job is a new submission.
    const std::string submission = !pods.is_coordinator ? ""
                                                        : fmt::format(R"(              - name: {}
                valueFrom: {{fieldRef: {{fieldPath: "metadata.labels['batch.kubernetes.io/controller-uid']"}}}}
)",
                                                                      kSubmissionVariable);
    const auto priority_class = name_of_priority(settings_, job.priority);
    const std::string priority =
        priority_class.empty()
            ? ""
            : fmt::format("            priorityClassName: {}\n", yaml_text(priority_class));
    // All pods do so at once, and each of them reads it whole.
    const auto script = fmt::format(
        "mkdir -p {0} && cp {1}/job.toml {0}/.job.toml.$HOSTNAME && mv {0}/.job.toml.$HOSTNAME "
        "{0}/job.toml && exec sullae jobs {2} --engine kubernetes {0}",
        folder_of(job), kConfig, pods.command);
    std::string mounts;
    std::string volumes;
    for (const auto& [name, path] : job.mounts) {
      mounts += fmt::format("              - {{name: {}, mountPath: {}}}\n",
                            yaml_text(name_of(name)), yaml_text(path));
      volumes +=
          fmt::format("            - {{name: {0}, persistentVolumeClaim: {{claimName: {0}}}}}\n",
                      yaml_text(name_of(name)));
    }
    return fmt::format(
        R"(  - name: {role}
    replicas: 1
    template:
      spec:
        parallelism: {pods}
        completions: {pods}
        completionMode: Indexed
        backoffLimit: {retries}
{policy}        template:
          spec:
            restartPolicy: Never
{priority}            containers:
            - name: sullae
              image: {image}
              command: ["sh", "-c", {script}]
              env:
              - {{name: SULLAE_CLUSTER, value: {config}}}
              - {{name: SULLAE_CONNECT_TIMEOUT, value: "86400"}}
{submission}              resources:
                requests: {{cpu: "{cpus}"}}
              volumeMounts:
              - {{name: "sullae-jobs", mountPath: {jobs}}}
              - {{name: "sullae-config", mountPath: {config}}}
{mounts}            volumes:
            - {{name: "sullae-jobs", persistentVolumeClaim: {{claimName: "sullae-jobs"}}}}
            - {{name: "sullae-config", configMap: {{name: {own_name}}}}}
{volumes})",
        fmt::arg("role", pods.role), fmt::arg("pods", pods.pods), fmt::arg("retries", pods.retries),
        fmt::arg("policy", policy), fmt::arg("submission", submission),
        fmt::arg("priority", priority), fmt::arg("image", yaml_text(image_of(job))),
        fmt::arg("script", yaml_text(script)), fmt::arg("config", yaml_text(kConfig)),
        fmt::arg("cpus", pods.cpus), fmt::arg("jobs", yaml_text(kJobs)), fmt::arg("mounts", mounts),
        fmt::arg("volumes", volumes), fmt::arg("own_name", yaml_text(own_name_of(job))));
  }

  Settings settings_;
};

}  // namespace

std::unique_ptr<Engine> make_kubernetes_engine(const Settings& settings) {
  return std::make_unique<KubernetesEngine>(settings);
}

}  // namespace sullae::cluster

// UCX's context and worker, with owners.
#pragma once

#include <fmt/format.h>
#include <poll.h>
#include <ucp/api/ucp.h>
#include <ucs/config/global_opts.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "sullae/error.h"

namespace sullae::ucx {

inline constexpr const char* kTcpSegment = "128k";

inline void check(ucs_status_t status, const char* what) {
  if (status != UCS_OK) throw Error(fmt::format("UCX: {}: {}", what, ucs_status_string(status)));
}

inline bool has_rdma_device() {
  std::error_code ignored;
  return std::filesystem::exists("/sys/class/infiniband", ignored) &&
         !std::filesystem::is_empty("/sys/class/infiniband", ignored);
}

// An RDMA device sends on its own what it was given.
inline bool sends_in_software() {
  const char* const chosen = std::getenv("UCX_TLS");
  return !has_rdma_device() ||
         (chosen != nullptr && std::string(chosen).find("tcp") != std::string::npos);
}

inline void set_default(ucp_config_t* config, const char* name, const char* value) {
  if (std::getenv((std::string("UCX_") + name).c_str()) != nullptr) return;
  check(ucp_config_modify(config, name, value), name);
}

struct Context {
  ucp_context_h handle = nullptr;
  Context() {
    // UCX warns of settings that no connection uses, and of every message that a failed rank left
    // behind; the failure itself is reported anyway.
    if (std::getenv("UCX_LOG_LEVEL") == nullptr) ucs_global_opts_set_value("LOG_LEVEL", "error");
    ucp_config_t* config = nullptr;
    check(ucp_config_read(nullptr, nullptr, &config), "reading the configuration");
    // Over TCP, asking before each large message costs a round trip behind all the data that is
    // queued already. Receives are posted before messages come, so sending at once needs no extra
    // copy. A user's own UCX variables win.
    if (!has_rdma_device()) {
      set_default(config, "RNDV_THRESH", "inf");
      set_default(config, "TCP_TX_SEG_SIZE", kTcpSegment);
      set_default(config, "TCP_RX_SEG_SIZE", kTcpSegment);
    }
    // Nothing that a flush waits for may depend on peers with which there is no connection yet
    // (LingeringSends).
    set_default(config, "FLUSH_WORKER_EPS", "n");
    ucp_params_t params{};
    params.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_NAME;
    params.features = UCP_FEATURE_TAG | UCP_FEATURE_WAKEUP;
    params.name = "sullae";
    const ucs_status_t status = ucp_init(&params, config, &handle);
    ucp_config_release(config);
    check(status, "starting");
  }
  ~Context() { ucp_cleanup(handle); }
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
};

// Until something happens to the armed worker whose descriptor this is.
inline void sleep(int event_fd, std::chrono::microseconds most) {
  pollfd polled{event_fd, POLLIN, 0};
  const timespec limit{most.count() / 1'000'000, most.count() % 1'000'000 * 1000};
  ::ppoll(&polled, 1, &limit, nullptr);
}

struct Worker {
  ucp_worker_h handle = nullptr;
  int event_fd = -1;
  explicit Worker(const Context& context) {
    ucp_worker_params_t params{};
    params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
    // The thread that makes a world may not be the one that uses it, though only one does at a
    // time.
    params.thread_mode = UCS_THREAD_MODE_SERIALIZED;
    check(ucp_worker_create(context.handle, &params, &handle), "creating a worker");
    check(ucp_worker_get_efd(handle, &event_fd), "getting the worker's event descriptor");
  }
  ~Worker() { ucp_worker_destroy(handle); }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  std::string address() const {
    ucp_address_t* address = nullptr;
    std::size_t length = 0;
    check(ucp_worker_get_address(handle, &address, &length), "getting the worker's address");
    std::string copy(reinterpret_cast<const char*>(address), length);
    ucp_worker_release_address(handle, address);
    return copy;
  }

  // Makes progress, or sleeps a moment when there is none to make.
  void progress(int spins, std::chrono::milliseconds most) {
    for (int i = 0; i < spins; ++i) {
      if (ucp_worker_progress(handle) != 0) return;
    }
    const ucs_status_t armed = ucp_worker_arm(handle);
    if (armed == UCS_ERR_BUSY) return;
    check(armed, "arming the worker");
    sleep(event_fd, most);
  }
};

}  // namespace sullae::ucx

// Makers of the commands, one file each.
#pragma once

#include <memory>

#include "cli/command.h"

namespace sullae::cli {

std::unique_ptr<Command> make_run_command();
std::unique_ptr<Command> make_dashboard_command();
std::unique_ptr<Command> make_ps_command();
std::unique_ptr<Command> make_train_command();
std::unique_ptr<Command> make_data_command();
std::unique_ptr<Command> make_scaling_command();
std::unique_ptr<Command> make_serve_command();
std::unique_ptr<Command> make_online_command();
std::unique_ptr<Command> make_predict_command();
std::unique_ptr<Command> make_bench_command();
std::unique_ptr<Command> make_report_command();
std::unique_ptr<Command> make_generate_command();
std::unique_ptr<Command> make_timeline_command();
std::unique_ptr<Command> make_agent_command();
std::unique_ptr<Command> make_cluster_command();
std::unique_ptr<Command> make_hosts_command();
std::unique_ptr<Command> make_jobs_command();
std::unique_ptr<Command> make_pipeline_command();

}  // namespace sullae::cli

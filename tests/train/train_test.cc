// `sullae train` and `sullae report` from outside, as a user sees them.
#include <sys/mount.h>
#include <unistd.h>

#include <csignal>

#include "launch/binding.h"
#include "support/content_of.h"
#include "support/errors.h"
#include "train/fixture.h"

namespace sullae::testing {
namespace {

TEST_F(Train, LearnsTheSameWithEveryNumberOfRanks) {
  std::vector<double> losses;
  for (const int ranks : {1, 2, 3}) {
    const auto result = train(ranks, {"--epochs", "2", "--report", report_});
    ASSERT_EQ(result.exit_code, 0) << result.standard_error;
    const auto report = read_json(report_);
    EXPECT_EQ(report.at("world_size"), ranks);
    EXPECT_EQ(report.at("epochs"), 2);
    EXPECT_EQ(report.at("recipe"), "mnist");
    EXPECT_GT(report.at("test_accuracy").get<double>(), 0.7);
    EXPECT_GT(report.at("samples_per_second").get<double>(), 0);
    EXPECT_GT(report.at("seconds").get<double>(), 0);
    losses.push_back(report.at("test_loss"));
    EXPECT_TRUE(contains(result.standard_output, "[0] epoch 2/2")) << result.standard_output;
    EXPECT_FALSE(contains(result.standard_output, "[1]")) << "rank 0 alone speaks";
  }
  // float32, and sums in another order: close, not equal.
  EXPECT_NEAR(losses[1], losses[0], 0.05);
  EXPECT_NEAR(losses[2], losses[0], 0.05);
}

TEST_F(Train, HasAllCoresByItself) {
  const HiddenGpus hidden;
  const auto threads = [&](const std::map<std::string, std::string>& variables) {
    const auto result = run_program({sullae_program(), "train", "mlp", "--data", mnist_, "--epochs",
                                     "1", "--max-steps", "1", "--report", report_},
                                    variables);
    EXPECT_EQ(result.exit_code, 0) << result.standard_error;
    return read_json(report_).at("threads").get<int>();
  };
  EXPECT_EQ(threads({{"OMP_NUM_THREADS", ""}}), allowed_cores());
  EXPECT_EQ(threads({{"OMP_NUM_THREADS", "3"}}), 3);
}

TEST_F(Train, EqualRunsAreEqualToTheBit) {
  const HiddenGpus hidden;
  std::vector<double> losses;
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(train(2, {"--epochs", "1", "--report", report_}).exit_code, 0);
    losses.push_back(read_json(report_).at("test_loss"));
  }
  EXPECT_EQ(losses[0], losses[1]);
}

TEST_F(Train, LearnsAndResumesWithChannelsLast) {
  const HiddenGpus hidden;
  const auto run = [&](std::vector<std::string> options) {
    options.insert(options.end(), {"--epochs", "2", "--report", report_});
    const auto result = train(2, options);
    EXPECT_EQ(result.exit_code, 0) << result.standard_error;
    return read_json(report_).at("test_loss").get<double>();
  };
  const double straight = run({"--channels-last"});
  EXPECT_NEAR(straight, run({}), 0.05);
  run({"--channels-last", "--checkpoint-dir", checkpoints_, "--max-steps", "40"});
  EXPECT_EQ(run({"--channels-last", "--checkpoint-dir", checkpoints_, "--resume"}), straight);
}

TEST_F(Train, ResumesInTheMiddleOfAnEpoch) {
  const HiddenGpus hidden;
  ASSERT_EQ(train(2, {"--epochs", "3", "--report", report_}).exit_code, 0);
  const double straight = read_json(report_).at("test_loss");

  ASSERT_EQ(
      train(2, {"--epochs", "3", "--max-steps", "60", "--checkpoint-dir", checkpoints_}).exit_code,
      0);
  const auto resumed = train(
      2, {"--epochs", "3", "--checkpoint-dir", checkpoints_, "--resume", "--report", report_});
  ASSERT_EQ(resumed.exit_code, 0) << resumed.standard_error;
  EXPECT_TRUE(contains(resumed.standard_output, "resuming after step 26 of epoch 2"))
      << resumed.standard_output;
  EXPECT_EQ(read_json(report_).at("test_loss").get<double>(), straight)
      << "as if it had never stopped";
  EXPECT_EQ(files_in(checkpoints_),
            (std::vector<std::string>{"mnist-best.ckpt", "mnist-step-000000068.ckpt",
                                      "mnist-step-000000102.ckpt"}));
}

TEST_F(Train, PassesOverATornCheckpointWithAWarning) {
  ASSERT_EQ(train(1, {"--epochs", "2", "--checkpoint-dir", checkpoints_}).exit_code, 0);
  std::filesystem::resize_file(checkpoints_ / "mnist-step-000000068.ckpt", 1000);
  const auto result = train(1, {"--epochs", "2", "--checkpoint-dir", checkpoints_, "--resume"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_TRUE(contains(result.standard_error, "mnist-step-000000068.ckpt: is torn"))
      << result.standard_error;
  EXPECT_TRUE(contains(result.standard_output, "resuming after epoch 1"));
  for (const auto& name : files_in(checkpoints_))
    std::filesystem::resize_file(checkpoints_ / name, 100);
  const auto none = train(1, {"--epochs", "2", "--checkpoint-dir", checkpoints_, "--resume"});
  EXPECT_EQ(none.exit_code, 1);
  EXPECT_TRUE(contains(none.standard_error, "--resume: none of the 2 checkpoints in"))
      << none.standard_error;
}

TEST_F(Train, ARankKilledInTheMiddleOfAnEpochIsNamedAndLeavesAWholeCheckpoint) {
  Program program(
      words(2, {"--epochs", "1000", "--log-interval", "1", "--checkpoint-dir", checkpoints_}));
  ASSERT_TRUE(program.wait_for_output("epoch 2/1000  step 5/"));
  // The ranks are the processes of this data set that are no launcher.
  pid_t victim = 0;
  for (const pid_t pid : processes_with(mnist_.string())) {
    const std::string variables = content_of("/proc/" + std::to_string(pid) + "/environ");
    if (contains(variables, "SULLAE_RANK=1")) victim = pid;
  }
  ASSERT_NE(victim, 0);
  ::kill(victim, SIGKILL);
  const auto result = program.wait(std::chrono::seconds{60});
  EXPECT_EQ(result.exit_code, 137);
  EXPECT_TRUE(contains(result.standard_error, "rank 1 (process " + std::to_string(victim)))
      << result.standard_error;
  EXPECT_TRUE(
      contains(result.standard_error, "was killed by signal 9 (Killed); ending the other ranks"))
      << result.standard_error;
  EXPECT_TRUE(vanish(mnist_.string()));
  const auto resumed = train(2, {"--epochs", "1", "--checkpoint-dir", checkpoints_, "--resume"});
  EXPECT_EQ(resumed.exit_code, 0) << resumed.standard_error;
  EXPECT_TRUE(contains(resumed.standard_output, "resuming after epoch")) << resumed.standard_output;
}

// A file system of its own that is too small for a second checkpoint.
TEST_F(Train, AFullDiskIsReportedAndTheOlderCheckpointIsIntact) {
  std::filesystem::create_directory(checkpoints_);
  if (::mount("tmpfs", checkpoints_.c_str(), "tmpfs", 0, "size=1500k") != 0) {
    GTEST_SKIP() << "SKIPPED: mounting a small file system needs root";
  }
  const auto result = train(2, {"--epochs", "2", "--checkpoint-dir", checkpoints_});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_TRUE(contains(result.standard_error,
                       "mnist-step-000000068.ckpt cannot be written: No space left on device"))
      << result.standard_error;
  EXPECT_EQ(files_in(checkpoints_),
            (std::vector<std::string>{"mnist-best.ckpt", "mnist-step-000000034.ckpt"}));
  const auto resumed = train(2, {"--epochs", "1", "--checkpoint-dir", checkpoints_, "--resume"});
  EXPECT_EQ(resumed.exit_code, 0) << resumed.standard_error;
  ::umount2(checkpoints_.c_str(), MNT_DETACH);
}

TEST_F(Train, SaysWhatIsWrong) {
  const auto truncated = directory_.path() / "truncated";
  std::filesystem::copy(mnist_, truncated);
  std::filesystem::resize_file(truncated / "train-images-idx3-ubyte", 5000);
  std::filesystem::create_directory(directory_.path() / "half");
  std::ofstream(directory_.path() / "half" / "train-00001-of-00002.csv") << "good,a\nbad,b\n";
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"nsmc", "--data", directory_.path() / "half"},
       "half/train-00000-of-00002…: is missing, and 1 of 2 files are there"},
      {{"mnist", "--data", "/no/such"}, "/no/such/train-images-idx3-ubyte: there is no such file"},
      {{"mnist", "--data", truncated},
       "train-images-idx3-ubyte: is truncated: its header announces 2000 images of 28 x 28"},
      {{"mnist", "--data", mnist_, "--epoch"},
       "--epoch is not an option of sullae train mnist (did you mean --epochs?)"},
      {{"mnist", "--data", mnist_, "--epochs", "0"}, "--epochs 0: expected 1 or more"},
      {{"mnist", "--data", mnist_, "--epochs", "many"}, "--epochs"},
      {{"mnist", "--data", mnist_, "--lr", "-1"}, "--lr -1: expected more than 0"},
      {{"mnist", "--data", mnist_, "--optimizer", "adagrad"}, "--optimizer"},
      {{"mnist", "--data", mnist_, "--resume"}, "--resume: needs --checkpoint-dir"},
      {{"mnist", "--data", mnist_, "--checkpoint-dir", "/proc/none"},
       "--checkpoint-dir /proc/none"},
      {{"nsmc", "--data", "/no/such"}, "/no/such: there is no such file or folder"},
      {{"nsmc", "--data", mnist_}, "is no labelled text: expected the features 'text' and 'label'"},
      {{"mnist", "--data", mnist_, "--device", "cpu", "--precision", "float16"},
       "libtorch does not compute in float16 on the CPU"},
      {{"mnist", "--data", mnist_, "--loss-scale", "8"}, "--loss-scale 8: needs --precision"},
      {{"mnist", "--data", mnist_, "--precision", "bfloat16", "--loss-scale", "much"},
       "--loss-scale much: expected dynamic, or a number above 0"},
      {{"mnist", "--data", mnist_, "--sync-batch-norm"},
       "--sync-batch-norm: mnist's network has no batch norms"},
      {{"mnist", "--data", mnist_, "--lr-schedule", "step"}, "needs --lr-steps"},
      {{"mnist", "--data", mnist_, "--lr-schedule", "step", "--lr-steps", "3,x"}, "--lr-steps 3,x"},
      {{"mnist", "--data", mnist_, "--local-sgd", "often"}, "--local-sgd"},
      {{"mnist", "--data", mnist_, "--precision", "bfloat16", "--compression", "topk:0.1"},
       "--compression topk:0.1: gradients in bfloat16 travel as they are"},
      {{"mnist", "--data", mnist_, "--precision", "float16", "--allreduce-precision", "float32",
        "--compression", "topk:0.1"},
       "--compression topk:0.1: does not go with --precision float16"},
      {{"mnist", "--data", mnist_, "--local-sgd", "2", "--compression", "float16"}, "--local-sgd"},
      {{"mnist", "--data", mnist_, "--batch-size", "2", "--scale-up", "3"},
       "--scale-up 3 divide it: expected at least 3"},
      {{"mnist", "--data", mnist_, "--optimizer", "sgd", "--nesterov", "--momentum", "0"},
       "--nesterov: needs"},
      {{"mnist", "--data", mnist_, "--optimizer", "adam", "--nesterov"},
       "--nesterov true: changes nothing here: it is for --optimizer sgd and lars, and not adam"},
      {{"mnist", "--data", mnist_, "--optimizer", "sgd", "--beta1", "0.8"},
       "--beta1 0.8: changes nothing here: it is for --optimizer adam, adamw and lamb, and not "
       "sgd"},
      {{"mnist", "--data", mnist_, "--lr-schedule", "constant", "--end-lr", "1e-5"},
       "--end-lr 1e-05: changes nothing here: it is for --lr-schedule linear, cosine and "
       "polynomial"},
      {{"mnist", "--data", mnist_, "--lr-schedule", "cosine", "--lr-steps", "3"},
       "--lr-steps 3: changes nothing"},
      {{"mnist", "--data", mnist_, "--keep-checkpoints", "7"},
       "--keep-checkpoints 7: changes nothing here: it is for checkpoints, of which there are "
       "none"},
      {{"mnist", "--data", mnist_, "--allreduce-precision", "float32"},
       "--allreduce-precision float32: changes"},
      {{"mnist", "--data", mnist_, "--lr-schedule", "step", "--lr-steps", "5,nan"},
       "--lr-steps 5,nan: expected"},
      {{"mnist", "--data", mnist_, "--lr-schedule", "polynomial", "--lr-power", "-2"},
       "--lr-power -2: expected more than 0"},
      {{"mnist", "--data", mnist_, "--optimizer", "lars", "--trust-coefficient", "-1"},
       "--trust-coefficient -1: expected more than 0"},
      {{"resnet18"}, "no data: give --data"},
      {{"resnet18", "--data", mnist_ / "train-images-idx3-ubyte", "--sync-batch-norm", "--scale-up",
        "2"},
       "--sync-batch-norm: does not go with --scale-up"},
      {{"imagenet"}, "'imagenet' is not a command"},
      {{}, "sullae train is followed by one of mnist, mlp, "},
  };
  for (const auto& [options, message] : cases) {
    std::vector<std::string> all{sullae_program(), "train"};
    all.insert(all.end(), options.begin(), options.end());
    const auto result = run_program(all);
    EXPECT_NE(result.exit_code, 0) << message;
    EXPECT_TRUE(contains(result.standard_error, message)) << message << "\nbut got\n"
                                                          << result.standard_error;
  }
}

// Batches need not be a multiple of the ranks, nor the data of the batches: 2000 samples are 32
// batches of 61 and one of 48; or 31 of 64 and one of 16; or 666 of 3 and one of 2, which leaves
// one of three ranks without a sample.
TEST_F(Train, UnevenPartsCountByTheirSamples) {
  for (const char* batch : {"61", "64", "3"}) {
    std::vector<double> losses;
    for (const int ranks : {1, 2, 3}) {
      auto all = words(ranks,
                       {"--batch-size", batch, "--epochs", "1", "--lr", "0.0005", "--dropout", "0",
                        "--report", report_},
                       "mlp");
      const auto result = run_program(all, {});
      ASSERT_EQ(result.exit_code, 0) << result.standard_error;
      const auto report = read_json(report_);
      losses.push_back(report["train_loss"]);
      losses.push_back(report["test_loss"]);
    }
    for (std::size_t i = 2; i < losses.size(); ++i)
      EXPECT_NEAR(losses[i], losses[i % 2], 2e-3 * losses[i % 2]) << "batch size " << batch;
  }
}

TEST_F(Train, DrawsDigitsWhereThereAreNone) {
  const auto elsewhere = directory_.path() / "away" / "from" / "data";
  std::filesystem::create_directories(elsewhere);
  const auto result = run_program(
      {sullae_program(), "train", "mnist", "--max-steps", "3", "--epochs", "1"}, {}, elsewhere);
  EXPECT_EQ(result.exit_code, 0) << result.standard_error;
  EXPECT_TRUE(contains(result.standard_output, "digits drawn by the program"))
      << result.standard_output;
}

class Nsmc : public Train {
 protected:
  Nsmc() {
    write("ratings_train.txt", 600);
    write("ratings_test.txt", 200);
  }
  void write(const std::string& name, int rows) {
    std::ofstream stream(directory_.path() / name);
    stream << "id\tdocument\tlabel\n";
    for (int i = 0; i < rows; ++i) {
      stream << i << '\t' << (i % 7 == 0 ? "" : "이 영화 ") << "낱말" << i % 90
             << (i % 2 == 0 ? " 좋다" : " 별로") << '\t' << (i + 1) % 2 << '\n';
    }
  }
};

TEST_F(Nsmc, LearnsTheSameWithOneRankAndTwo) {
  std::vector<double> losses;
  for (const std::string ranks : {"1", "2"}) {
    const auto result = run_program({sullae_program(),
                                     "run",
                                     "-np",
                                     ranks,
                                     sullae_program(),
                                     "train",
                                     "nsmc",
                                     "--data",
                                     directory_.path(),
                                     "--epochs",
                                     "3",
                                     "--embedding-size",
                                     "16",
                                     "--hidden-size",
                                     "16",
                                     "--dropout",
                                     "0",
                                     "--batch-size",
                                     "20",
                                     "--lr",
                                     "0.01",
                                     "--clip-norm",
                                     "5",
                                     "--report",
                                     report_});
    ASSERT_EQ(result.exit_code, 0) << result.standard_error;
    const auto report = read_json(report_);
    EXPECT_GT(report.at("test_accuracy").get<double>(), 0.99);
    losses.push_back(report.at("test_loss"));
  }
  EXPECT_NEAR(losses[1], losses[0], 0.01);
}

TEST_F(Train, ReportsAreCompared) {
  const auto one = directory_.path() / "1.json";
  const auto two = directory_.path() / "2.json";
  ASSERT_EQ(train(1, {"--epochs", "1", "--report", one}).exit_code, 0);
  ASSERT_EQ(train(2, {"--epochs", "1", "--report", two}).exit_code, 0);
  const auto table = run_program({sullae_program(), "report", one, two});
  EXPECT_EQ(table.exit_code, 0);
  for (const char* row :
       {"ranks", "test accuracy", "samples/s", "speedup", "scaling efficiency", "time"}) {
    EXPECT_TRUE(contains(table.standard_output, row)) << table.standard_output;
  }
  std::ofstream(one) << "{}";
  const auto other = run_program({sullae_program(), "report", one}).standard_error;
  EXPECT_TRUE(contains(other, "is not a report of sullae train: key 'recipe' not found")) << other;
  EXPECT_TRUE(contains(run_program({sullae_program(), "report", "/none"}).standard_error,
                       "/none: cannot be read: No such file or directory"));
}

}  // namespace
}  // namespace sullae::testing

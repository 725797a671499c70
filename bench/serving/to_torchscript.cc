// Writes the TorchScript and the vocabulary of a Sullae checkpoint, for a peer that serves the same
// model.
//
//   to_torchscript model.ckpt DIRECTORY
#include <fmt/format.h>
#include <torch/script.h>

#include <filesystem>
#include <fstream>

#include "sullae/torch/checkpoint.h"
#include "train/task.h"

int main(int argc, char** argv) {
  if (argc != 3) {
    fmt::print(stderr, "usage: to_torchscript model.ckpt DIRECTORY\n");
    return 2;
  }
  const std::filesystem::path directory = argv[2];
  const auto description =
      sullae::train::description_of(sullae::read_checkpoint_metadata(argv[1]), argv[1]);
  const auto network = sullae::train::find_recipe(description.recipe).model(description);
  sullae::load_checkpoint(argv[1], *network);
  network->eval();
  dynamic_cast<sullae::train::Classifier&>(*network).script().save(directory / "model.pt");
  std::ofstream words(directory / "vocabulary.txt");
  for (const auto& word : description.words) words << word << '\n';
}

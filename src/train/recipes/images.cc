// ResNet on any set of labelled images.
#include "train/batches/images.h"

#include <fmt/format.h>
#include <torch/torch.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <set>
#include <utility>

#include "sullae/data.h"
#include "sullae/elastic.h"
#include "train/device.h"
#include "train/models/resnet.h"
#include "train/recipes/added_images.h"
#include "train/recipes/recipes.h"
#include "train/recipes/splits.h"

namespace sullae::train {
namespace {

constexpr std::size_t kSmall = 64;  // pixels, up to which images are taken as they are
constexpr std::size_t kUsual = 224;

// Of CIFAR-10's training pixels.
constexpr std::array<float, 3> kSmallMean = {0.4914F, 0.4822F, 0.4465F};
constexpr std::array<float, 3> kSmallDeviation = {0.2470F, 0.2435F, 0.2616F};

struct ImageData {
  explicit ImageData(const RecipeOptions& options, const std::vector<std::string>& classes = {})
      : damage(std::make_unique<data::DamageLog>(options.skip_damaged)),
        splits(open_splits(options, *damage, classes)) {}

  std::unique_ptr<data::DamageLog> damage;
  Splits splits;
};

std::size_t image_size(const data::Dataset& dataset, std::size_t i) {
  const data::Example example = dataset.read(i);
  if (const auto* jpeg = example.bytes(data::feature::kImage)) {
    try {
      const auto size = data::jpeg_size(*jpeg);
      return std::min(size.rows, size.columns);
    } catch (const data::DamagedRecord& error) {
      throw data::DamagedRecord(fmt::format("{}: {}", dataset.place(i), error.what()));
    }
  }
  const auto* const rows = example.integer(data::feature::kRows);
  const auto* const columns = example.integer(data::feature::kColumns);
  if (rows == nullptr || columns == nullptr)
    throw InputError(fmt::format("{}: holds no image", dataset.place(i)));
  return static_cast<std::size_t>(std::min(*rows, *columns));
}

// Of the first that is whole.
std::size_t image_size(const ImageData& data) {
  const data::Dataset& dataset = *data.splits.train;
  for (std::size_t i = 0; i < dataset.size(); ++i) {
    try {
      return image_size(dataset, i);
    } catch (const data::DamagedRecord& error) {
      data.damage->report(error.what());
    }
  }
  throw InputError("all images are damaged");
}

data::ImageTransform make_transform(std::size_t size, bool small, bool augmented) {
  data::ImageTransformOptions options{.size = size};
  if (small) {
    options.mean = kSmallMean;
    options.deviation = kSmallDeviation;
    options.centre_share = 1;
  }
  if (augmented) {
    options.augmentation =
        small ? data::Augmentation::padded_crop : data::Augmentation::random_resized_crop;
  }
  return data::ImageTransform(options);
}

ResNetOptions network_options(int depth, const ModelDescription& description,
                              std::function<World()> sync = {}) {
  return {.depth = depth,
          .classes = description.integer("classes"),
          .small_images = description.number("small-images") != 0,
          .zero_init_residual = description.number("zero-init-residual") != 0,
          .sync_batch_norm = std::move(sync)};
}

// An elastic job has one after the other, and none yet.
std::function<World()> worlds_of(const World& world) {
  if (elastic::is_elastic())
    return [] {
      return sullae::world();
    };
  return [world] {
    return world;
  };
}

// What is known of the model before there is one.
ModelDescription describe_images(const Recipe& recipe, const RecipeOptions& options,
                                 const ImageData& data) {
  const Splits& splits = data.splits;
  auto size = static_cast<std::size_t>(options.extra.at("image-size"));
  const std::size_t stored = size == 0 ? image_size(data) : size;
  const bool small = stored <= kSmall;
  if (size == 0) size = small ? stored : kUsual;
  double classes = options.extra.at("classes");
  if (classes <= 0) classes = static_cast<double>(splits.train->classes().size());
  if (classes == 0) {
    throw InputError(
        fmt::format("{}: does not say how many classes it has: give --classes, or put their "
                    "names into a file "
                    "classes.txt beside it, a line each",
                    options.data.string()));
  }
  const auto input = make_transform(size, small, /*augmented=*/false).options();
  return {.recipe = recipe.name(),
          .input = InputKind::image,
          .numbers = {{"channels", 3},
                      {"image-size", static_cast<double>(size)},
                      {"centre-share", input.centre_share},
                      {"classes", classes},
                      {"small-images", small ? 1 : 0},
                      {"zero-init-residual", options.extra.at("zero-init-residual")}},
          .classes = splits.train->classes(),
          .mean = {input.mean.begin(), input.mean.end()},
          .deviation = {input.deviation.begin(), input.deviation.end()}};
}

class ImageTask final : public Task {
 public:
  ImageTask(std::shared_ptr<torch::nn::Module> model, ModelDescription description, ImageData data,
            const RecipeOptions& options, std::size_t half_size_epochs)
      : damage_(std::move(data.damage)),
        splits_(std::move(data.splits)),
        half_size_epochs_(half_size_epochs),
        model_description_(std::move(description)),
        model_(std::move(model)) {
    const auto size = static_cast<std::size_t>(model_description_.integer("image-size"));
    const bool small = model_description_.number("small-images") != 0;
    stream_.classes = model_description_.integer("classes");
    stream_.prefetch = {.workers = static_cast<std::size_t>(options.data_workers),
                        .depth = static_cast<std::size_t>(options.prefetch)};
    stream_.seed = options.seed;
    stream_.pinned_memory =
        device_of(options, torch::cuda::is_available() ? torch::kCUDA : torch::kCPU).is_cuda();
    transforms_.reserve(4);
    for (const std::size_t side : {size, std::max<std::size_t>(size / 2, 1)}) {
      transforms_.push_back(make_transform(side, small, /*augmented=*/true));
      transforms_.push_back(make_transform(side, small, /*augmented=*/false));
    }
    const auto cached = static_cast<std::size_t>(options.cache_megabytes) << 20;
    if (cached > 0) splits_.train = data::cache_in_memory(splits_.train, cached);
    description_ =
        fmt::format("{} images of {} classes from {}, {} x {} pixels", splits_.train->size(),
                    stream_.classes, splits_.description, size, size);
  }

  std::shared_ptr<torch::nn::Module> model() override { return model_; }
  const ModelDescription& description() const override { return model_description_; }
  std::size_t size(Split split) const override { return of(split).size(); }
  std::string data_description() const override { return description_; }
  std::size_t damaged() const override { return damage_->count(); }
  std::set<std::uint64_t> damaged_records() const override { return damage_->records(); }

  std::unique_ptr<BatchStream> batches(Split split, BatchPlan plan, std::size_t epoch) override {
    ImageStreamOptions options = stream_;
    options.epoch = epoch;
    const bool half = half_size_epochs_ > 0 && epoch <= half_size_epochs_;
    const std::size_t transform = (half ? 2U : 0U) + (split == Split::train ? 0U : 1U);
    return stream_images(of(split), transforms_[transform], *damage_, std::move(plan), options);
  }

 private:
  const data::Dataset& of(Split split) const {
    return split == Split::train ? *splits_.train : *splits_.test;
  }

  std::unique_ptr<data::DamageLog> damage_;
  Splits splits_;
  ImageStreamOptions stream_;
  std::size_t half_size_epochs_;
  // For training and testing at full size, and then at half of it.
  std::vector<data::ImageTransform> transforms_;
  ModelDescription model_description_;
  std::shared_ptr<torch::nn::Module> model_;
  std::string description_;
};

class ResNetRecipe final : public Recipe {
 public:
  explicit ResNetRecipe(int depth) : depth_(depth) {}
  std::string name() const override { return fmt::format("resnet{}", depth_); }
  std::string summary() const override {
    return fmt::format("ResNet-{} v1.5 on any set of labelled images", depth_);
  }
  std::vector<std::string> left_out_options() const override { return {"text-columns"}; }
  // P. Goyal et al. (2017) as it is used with Horovod: warm-up, then polynomial decay of degree 2.
  RecipeOptions defaults() const override {
    RecipeOptions options;
    options.epochs = 90;
    options.batch_size = 256;
    options.optimizer = "sgd";
    options.momentum = 0.9;
    options.nesterov = true;
    options.weight_decay = 1e-4;
    options.decay_all = true;
    options.lr = 0.1;
    options.lr_schedule = "polynomial";
    options.lr_power = 2;
    options.warmup_epochs = 10;
    options.warmup_lr = 0.001;
    options.log_interval = 20;
    return options;
  }
  std::vector<ExtraOption> extra_options() const override {
    using Takes = ExtraOption::Takes;
    return {
        {"image-size", 0, "Pixels of a side; 0: as they are up to 64, else 224", Takes::count_or_0},
        {"classes", 0, "Classes; 0: as many as the data names", Takes::count_or_0},
        {"half-size-epochs", 0, "First epochs with images of half the size, which are faster",
         Takes::count_or_0},
        {"zero-init-residual", 1, "1: the last norm of each residual block starts at 0",
         Takes::truth}};
  }
  std::shared_ptr<torch::nn::Module> model(const ModelDescription& description) const override {
    return std::make_shared<ResNetImpl>(network_options(depth_, description));
  }
  std::unique_ptr<Task> make(const RecipeOptions& options, const World& world,
                             const ModelDescription* known) const override {
    ImageData data(options, known != nullptr ? known->classes : std::vector<std::string>());
    ModelDescription description =
        known != nullptr ? *known : describe_images(*this, options, data);
    auto network = std::make_shared<ResNetImpl>(
        network_options(depth_, description,
                        options.sync_batch_norm ? worlds_of(world) : std::function<World()>()));
    const auto half_size_epochs = static_cast<std::size_t>(options.extra.at("half-size-epochs"));
    return std::make_unique<ImageTask>(std::move(network), std::move(description), std::move(data),
                                       options, half_size_epochs);
  }

  Refinement refine(const ModelDescription& description, const RecipeOptions& options,
                    const std::vector<AddedSample>& added, const World&) const override {
    ImageData data(options, description.classes);
    const AddedImages images(added, description);
    auto train = images.behind(data.splits.train, *data.damage, options.seed);
    auto test = images.behind(data.splits.test, *data.damage, options.seed);
    data.splits.train = std::move(train.dataset);
    data.splits.test = std::move(test.dataset);
    return {.task = std::make_unique<ImageTask>(model(description), description, std::move(data),
                                                options, /*half_size_epochs=*/0),
            .old_by_class = std::move(train.old_by_class),
            .first_added = train.old,
            .old_test = test.old};
  }

 private:
  int depth_;
};

}  // namespace

std::unique_ptr<Recipe> make_resnet_recipe(int depth) {
  return std::make_unique<ResNetRecipe>(depth);
}

}  // namespace sullae::train

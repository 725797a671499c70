// A world as a grid of ranks.
#include "sullae/parallel/mesh.h"

#include <gtest/gtest.h>

#include <map>

#include "parallel/grid.h"
#include "support/errors.h"
#include "support/ranks.h"

namespace sullae::testing {
namespace {

using Dimensions = std::vector<Mesh::Dimension>;

TEST(Mesh, IsReadFromText) {
  EXPECT_EQ(parse_mesh("dp=2,pp=1,tp=4"), (Dimensions{{"dp", 2}, {"pp", 1}, {"tp", 4}}));
  EXPECT_EQ(to_text(parse_mesh("dp=2,tp=4")), "dp=2,tp=4");
  for (const char* const wrong : {"", "dp", "dp=", "=2", "dp=0", "dp=-1", "dp=2,,tp=2", "dp=2x"})
    EXPECT_TRUE(contains(error_of([&] { parse_mesh(wrong); }), "expected dimensions")) << wrong;
}

TEST(Mesh, HasNeighboursOfAHostAlongItsLastDimension) {
  using Groups = std::vector<std::vector<std::vector<int>>>;
  EXPECT_EQ(groups_of_grid({2, 2}, {0, 1, 2, 3}), (Groups{{{0, 2}, {1, 3}}, {{0, 1}, {2, 3}}}));
  // Ranks dealt out to two hosts in turn.
  EXPECT_EQ(groups_of_grid({2, 2}, {0, 2, 1, 3}), (Groups{{{0, 1}, {2, 3}}, {{0, 2}, {1, 3}}}));
  // Where that would put a higher coordinate on a lower rank, the numbers count.
  EXPECT_EQ(groups_of_grid({2, 2}, {0, 3, 1, 2}), (Groups{{{0, 2}, {1, 3}}, {{0, 1}, {2, 3}}}));
  EXPECT_EQ(groups_of_grid({1, 3, 1}, {0, 1, 2}),
            (Groups{{{0}, {1}, {2}}, {{0, 1, 2}}, {{0}, {1}, {2}}}));
}

TEST(Mesh, MakesWorldsOfRowsAndColumns) {
  for (const auto& hosts : {std::vector<int>{}, std::vector<int>{4, 4}}) {
    run_ranks({.size = 8, .hosts = hosts}, [&](World& world) {
      const Mesh mesh(world, {{"dp", 2}, {"pp", 2}, {"tp", 2}, {"none", 1}});
      EXPECT_EQ(mesh["none"].size(), 1);
      const int place = 4 * mesh["dp"].rank() + 2 * mesh["pp"].rank() + mesh["tp"].rank();
      EXPECT_EQ(place, world.rank());
      for (const auto& [name, step] : std::map<std::string, int>{{"dp", 4}, {"pp", 2}, {"tp", 1}}) {
        EXPECT_EQ(mesh[name].size(), 2);
        int sum = world.rank();
        mesh[name].allreduce(&sum, &sum, 1, DataType::int32);
        const int other = mesh[name].rank() == 0 ? world.rank() + step : world.rank() - step;
        EXPECT_EQ(sum, world.rank() + other) << name;
      }
    });
  }
}

TEST(Mesh, MakesWorldsAcrossSeveralDimensions) {
  for (const auto& hosts : {std::vector<int>{}, std::vector<int>{4, 4}}) {
    run_ranks({.size = 8, .hosts = hosts}, [&](World& world) {
      const Mesh mesh(world, {{"dp", 2}, {"pp", 2}, {"tp", 2}});
      const auto sum_of = [&](const World& group) {
        int sum = 1 << world.rank();
        group.allreduce(&sum, &sum, 1, DataType::int32);
        return sum;
      };
      EXPECT_EQ(sum_of(mesh.across({"pp", "tp"})), mesh["dp"].rank() == 0 ? 0x0f : 0xf0);
      // In whatever order they are named.
      EXPECT_EQ(sum_of(mesh.across({"tp", "dp"})), mesh["pp"].rank() == 0 ? 0x33 : 0xcc);
      EXPECT_EQ(sum_of(mesh.across({"tp"})), sum_of(mesh["tp"]));
      EXPECT_EQ(mesh.across({"pp"}).rank(), mesh["pp"].rank());
      EXPECT_TRUE(mesh.across({"dp", "pp", "tp"}) == world);
      EXPECT_EQ(mesh.across({}).size(), 1);
      EXPECT_EQ(error_of([&] {
                  mesh.across({"pp", "up"});
                }),
                "mesh dp=2,pp=2,tp=2: has no dimension 'up'");
    });
  }
}

TEST(Mesh, OfOneDimensionIsTheWorld) {
  run_ranks({.size = 3}, [](World& world) {
    const Mesh mesh(world, {{"dp", 3}});
    EXPECT_TRUE(mesh["dp"] == world);
  });
}

TEST(Mesh, SaysWhatIsWrong) {
  run_ranks({.size = 4}, [](World& world) {
    const auto error = [&](Dimensions dimensions) {
      return error_of([&] { Mesh(world, std::move(dimensions)); });
    };
    EXPECT_EQ(error({{"dp", 3}}), "mesh dp=3: makes 3 ranks, and there are 4");
    constexpr int kMany = 2000000000;
    EXPECT_EQ(error({{"a", kMany}, {"b", kMany}, {"c", kMany}}),
              "mesh a=2000000000,b=2000000000,c=2000000000: makes more ranks, and there are 4");
    EXPECT_TRUE(contains(error({{"dp", 2}, {"dp", 2}}), "has two dimensions 'dp'"));
    EXPECT_TRUE(contains(error({{"", 4}}), "expected names, and sizes of 1 or more"));
    const Mesh mesh(world, {{"dp", 2}, {"tp", 2}});
    EXPECT_EQ(error_of([&] { mesh["pp"]; }), "mesh dp=2,tp=2: has no dimension 'pp'");
  });
  const auto errors = run_ranks_catching({.size = 4}, [](World& world) {
    Mesh(world,
         world.rank() == 3 ? Dimensions{{"a", 4}, {"b", 1}} : Dimensions{{"a", 2}, {"b", 2}});
  });
  for (const auto& error : errors)
    EXPECT_EQ(error,
              "ranks disagree about the mesh: it is a=2,b=2 on rank 0, and a=4,b=1 on rank 3");
}

}  // namespace
}  // namespace sullae::testing

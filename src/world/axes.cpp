#include "world/axes.h"

#include <algorithm>
#include <cstdint>
#include <numeric>

#include "base/checked.h"
#include "base/error.h"
#include "world/grid_text.h"

namespace fsdp::world {

namespace {

int64_t product_of(const Axes& axes) {
  int64_t product = 1;
  for (const auto& [name, size] : axes) product = checked_mul(product, size);
  return product;
}

// None if no size of this axis makes the product `ranks`.
std::vector<Axes> with_other_size(Axes axes, size_t axis, int ranks) {
  const int64_t others = product_of(axes) / axes[axis].second;
  if (ranks % others != 0) return {};
  axes[axis].second = static_cast<int>(ranks / others);
  return {axes};
}

// Keeps of each size the part that divides the ranks, from the last axis on. The first axis has the rest.
Axes with_common_divisors(Axes axes, int ranks) {
  for (size_t axis = axes.size() - 1; axis > 0; --axis) {
    axes[axis].second = std::gcd(axes[axis].second, ranks);
    ranks /= axes[axis].second;
  }
  axes[0].second = ranks;
  return axes;
}

void check_names(const Axes& axes) {
  for (size_t axis = 0; axis < axes.size(); ++axis) {
    const std::string& name = axes[axis].first;
    FSDP_CHECK(!name.empty(), "Mesh: axis {} of {} has no name, expected one such as \"data\".", axis, axes.size());
    const auto same = [&](const auto& other) { return other.first == name; };
    FSDP_CHECK(std::count_if(axes.begin(), axes.end(), same) == 1,
               "Mesh: found two axes with the name \"{}\" in {}, expected different names.", name, text_of(axes));
  }
}

}  // namespace

std::vector<std::string> texts_of(const Axes& axes) {
  std::vector<std::string> texts;
  for (const auto& [name, size] : axes) texts.push_back(fmt::format("{} {}", name, size));
  return texts;
}

std::string text_of(const Axes& axes) { return fmt::format("{}", fmt::join(texts_of(axes), " x ")); }

std::string names_of(const Axes& axes) {
  std::vector<std::string> names;
  for (const auto& axis : axes) names.push_back(axis.first);
  return fmt::format("{}", fmt::join(names, ", "));
}

std::vector<Axes> fitting_axes(const Axes& axes, int ranks) {
  std::vector<Axes> fitting = with_other_size(axes, 0, ranks);
  if (axes.size() > 1) {
    for (Axes& other : with_other_size(axes, axes.size() - 1, ranks)) fitting.push_back(std::move(other));
  }
  if (fitting.empty()) fitting.push_back(with_common_divisors(axes, ranks));
  return fitting;
}

void check_axes(const Axes& axes, int ranks) {
  FSDP_CHECK(!axes.empty(), "Mesh: found no axes, expected at least one, such as {{\"data\", {}}}.", ranks);
  check_names(axes);
  for (const auto& [name, size] : axes) {
    FSDP_CHECK(size >= 1, "Mesh: found size {} of axis \"{}\", expected 1 or more. An axis of size 1 divides nothing.",
               size, name);
  }
  const int64_t places = product_of(axes);
  if (places == ranks) return;
  std::vector<std::string> fitting;
  for (const Axes& other : fitting_axes(axes, ranks)) fitting.push_back(text_of(other));
  FSDP_CHECK(false, "Mesh: found {} = {} ranks, expected {}, the size of the world. The grid as asked, {}:\n{}Use {}.",
             text_of(axes), places, ranks,
             places < ranks ? fmt::format("in which {} ranks have no place", ranks - places)
                            : fmt::format("in which {} places have no rank", places - ranks),
             draw_as_asked(axes, ranks), fmt::join(fitting, ", or "));
}

size_t find_axis(const Axes& axes, const std::string& name, const std::string& call) {
  const auto found = std::find_if(axes.begin(), axes.end(), [&](const auto& axis) { return axis.first == name; });
  FSDP_CHECK(found != axes.end(), "{}: found the axis \"{}\", expected one of: {}.", call, name, names_of(axes));
  return found - axes.begin();
}

}  // namespace fsdp::world

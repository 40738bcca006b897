#include "api/vocabulary_parts.h"

#include <utility>

#include "api/tensor_parallel/matrices.h"
#include "api/tensor_parallel/part_sum.h"
#include "api/tensor_parallel/parts.h"
#include "base/error.h"

namespace fsdp {

using torch::Tensor;

namespace {

std::vector<int64_t> entries_of_ranks(const Tensor& weight, World axis) {
  std::vector<int64_t> entries;
  const Tensor own = torch::tensor({weight.size(0)}, torch::kInt64).to(axis.device());
  for (const Tensor& of_rank : axis.all_gather(own)) entries.push_back(of_rank.item<int64_t>());
  return entries;
}

void check_entries(const std::vector<int64_t>& found, int64_t entries, const AxisParts& parts) {
  FSDP_CHECK(entries >= parts.total,
             "linear_cross_entropy: found a vocabulary of {} entries in {} parts, expected an entry for each part.",
             entries, parts.total);
  for (size_t rank = 0; rank < found.size(); ++rank) {
    const int first = static_cast<int>(rank) * parts.count;
    const int64_t expected =
        range_of_rank(entries, {.total = parts.total, .first = first, .count = parts.count}).numel();
    FSDP_CHECK(
        found[rank] == expected,
        "linear_cross_entropy: rank {} of the axis has {} entries of a vocabulary of {}, expected {} of {} in {} "
        "parts. Divide the weight as ParallelEmbedding does.",
        rank, found[rank], entries, expected, entries, parts.total);
  }
}

// A part's rows of this rank's weight, or of its gradient.
Tensor rows_of_part(const Tensor& weight, const VocabularyParts& parts, const layout::Range& part) {
  return weight.narrow(0, part.begin - parts.own[0].begin, part.numel());
}

Head head_of_part(const Head& head, const VocabularyParts& parts, const layout::Range& part) {
  if (!parts.axis) return head;
  return {.hidden = own_matrix(head.hidden),
          .weight = own_matrix(rows_of_part(head.weight, parts, part)),
          .targets = head.targets - part.begin,
          .chunk_bytes = head.chunk_bytes};
}

// One tensor for an exchange: [3 or 4, rows].
Tensor stacked(const RowStatistics& rows) {
  std::vector<Tensor> all{rows.exponentials.largest, rows.exponentials.sum, rows.of_target};
  if (rows.total.defined()) all.push_back(rows.total);
  return torch::stack(all);
}

// A target is in one part, and 0 in all others.
RowStatistics combined(const std::vector<Tensor>& of_parts, bool with_total) {
  const Tensor all = torch::stack(of_parts);
  RowStatistics rows{.exponentials = {.largest = all.select(1, 0).amax(0), .sum = {}}, .of_target = {}, .total = {}};
  std::vector<Tensor> sums, of_target, totals;
  for (const Tensor& part : all.unbind(0)) {
    sums.push_back(part[1] * (part[0] - rows.exponentials.largest).exp_());
    of_target.push_back(part[2]);
    if (with_total) totals.push_back(part[3]);
  }
  rows.exponentials.sum = added_in_order(sums);
  rows.of_target = added_in_order(of_target);
  if (with_total) rows.total = added_in_order(totals);
  return rows;
}

// Where a part's gradient of the weight is written: its rows of `whole`, if a product may write there.
Tensor place_of_part(const Tensor& whole, const VocabularyParts& parts, const layout::Range& part) {
  const Tensor rows = parts.axis ? rows_of_part(whole, parts, part) : whole;
  return !parts.axis || is_own_matrix(rows) ? rows : torch::empty(rows.sizes(), rows.options());
}

}  // namespace

VocabularyParts vocabulary_parts(const Tensor& weight, const LinearCrossEntropyOptions& options) {
  if (!options.divided_over) return {.entries = weight.size(0), .own = {{0, weight.size(0)}}, .axis = {}};
  const World& axis = *options.divided_over;
  const AxisParts parts = parts_of("linear_cross_entropy", axis, options.parts);
  const std::vector<int64_t> found = entries_of_ranks(weight, axis);
  int64_t entries = 0;
  for (const int64_t of_rank : found) entries += of_rank;
  check_entries(found, entries, parts);
  VocabularyParts vocabulary{.entries = entries, .own = {}, .axis = axis};
  for (int part = 0; part < parts.count; ++part)
    vocabulary.own.push_back(range_of_part(entries, parts.total, parts.first + part));
  return vocabulary;
}

PartStatistics statistics_of_parts(const Head& head, const VocabularyParts& parts, bool with_total, Keep keep) {
  PartStatistics found;
  std::vector<Tensor> own;
  for (const layout::Range& part : parts.own) {
    HeadStatistics of_part = head_statistics(head_of_part(head, parts, part), with_total, keep);
    found.kept.push_back(std::move(of_part.kept));
    if (!parts.axis) found.rows = std::move(of_part.rows);
    if (parts.axis) own.push_back(stacked(of_part.rows));
  }
  if (parts.axis) found.rows = combined(all_parts(own, *parts.axis), with_total);
  return found;
}

void write_gradients_of_parts(const Head& head, const VocabularyParts& parts, const LogitGradient& of_logits,
                              KeptLogitsOfParts kept, PartGradients& into) {
  std::vector<Tensor> of_hidden;
  kept.resize(parts.own.size());
  for (size_t i = 0; i < parts.own.size(); ++i) {
    HeadGradients of_part;
    if (into.needs_hidden)
      of_hidden.push_back(of_part.of_hidden = torch::zeros_like(head.hidden, dtype_of_sums(head.hidden)));
    if (into.of_weight.defined()) of_part.of_weight = place_of_part(into.of_weight, parts, parts.own[i]);
    write_gradients(head_of_part(head, parts, parts.own[i]), of_logits, std::move(kept[i]), of_part);
    if (!into.of_weight.defined() || !parts.axis) continue;
    Tensor rows = rows_of_part(into.of_weight, parts, parts.own[i]);
    if (!rows.is_alias_of(of_part.of_weight)) rows.copy_(of_part.of_weight);
  }
  if (into.needs_hidden) into.of_hidden = parts.axis ? sum_over_parts(of_hidden, *parts.axis) : of_hidden[0];
}

}  // namespace fsdp

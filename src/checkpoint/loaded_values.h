// The part of a checkpoint that this rank loads: read, and compared with its hashes, before anything changes; then
// written to the model and the optimizer, in the formats that these keep.
//
// Where the files and a target have the same format, the bytes are compared first and not kept. Then they are read
// again right into the target, most often out of the system's page cache: that is faster than a copy in fresh memory,
// and takes no memory. A blank target, a parameter without values or an optimizer's state before its first step, has
// nothing to lose, and is read into at once. Values that are converted, or copied to a GPU, are kept in between.
#pragma once

#include <map>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "checkpoint/contents.h"
#include "checkpoint/manifest.h"
#include "checkpoint/piece_reads.h"
#include "checkpoint/saved_ranges.h"
#include "checkpoint/shard_file.h"
#include "layout/placement.h"

namespace fsdp::checkpoint {

// `add` all, `read`, `write`. One thread.
class LoadedValues {
 public:
  // Both outlive it.
  LoadedValues(const std::filesystem::path& directory, const Manifest& saved);

  // `placed`: where the piece lies in the parameter. `is_there`: whether the checkpoint has values of that kind for the
  // parameter, or for its first rows. `is_blank`: so is the target, and the checkpoint has values for all of it.
  void add(const Contents::Piece& of, const std::string& parameter, const layout::Placement& placed, bool is_there,
           bool is_blank);
  void add_buffers(const NamedTensors& buffers);
  // The bytes of the rank's state, which `read` fills.
  torch::Tensor add_generator(const Manifest::Generator& generator, int rank);

  // Fills blank targets. Throws Error with all that is damaged.
  void read();
  // Blank targets are blank again, where `read` has begun to fill them.
  void clear_blank() const;
  // Throws Error, when all else is written, where bytes have changed that are read again.
  void write() const;

 private:
  struct Copy {
    torch::Tensor target, values;
  };
  struct Unpacking {
    torch::Tensor target, codes, scales;
    int64_t first;  // the number of the first code in the block that the first scale is for
  };
  struct Packing {
    torch::Tensor codes, scales;  // targets
    torch::Tensor values;         // of their first elements; the others are 0
  };

  void add_saved(const Contents::Piece& of, const Manifest::Parameter& saved, const layout::Placement& elements,
                 bool is_blank);
  // The elements that the files have of KIND.NAME, which `read` fills.
  torch::Tensor to_be_read(const Manifest::Parameter& saved, const std::string& kind, const layout::Placement& elements,
                           int64_t numel_each = 1);
  // The reads of these ranges of KIND.NAME, into a tensor of the elements that are wanted.
  std::vector<PieceRead> reads_of(const Manifest::Parameter& saved, const std::string& kind,
                                  const std::vector<SavedRange>& ranges, void* into);
  const ShardFile::Entry& entry_of(const Manifest::Parameter& saved, const std::string& kind, const SavedRange& range);
  // The bytes from `begin` on that fill the tensor.
  void add_read(const ShardFile& file, const ShardFile::Entry& entry, int64_t begin, const torch::Tensor& into);
  const ShardFile& open(int file);

  const std::filesystem::path& directory_;
  const Manifest& saved_;
  std::map<std::string_view, const Manifest::Parameter*> parameters_;
  std::map<int, std::unique_ptr<ShardFile>> files_;
  std::vector<PieceRead> reads_;
  std::vector<PieceRead> reads_in_place_;  // are among `reads_` as well, to be compared first
  std::vector<Copy> copies_;
  std::vector<Unpacking> unpackings_;
  std::vector<Packing> packings_;
  std::vector<torch::Tensor> blank_;
  std::vector<torch::Tensor> fresh_;  // not in the checkpoint, or not all of it
  bool has_begun_ = false;            // to read
};

}  // namespace fsdp::checkpoint

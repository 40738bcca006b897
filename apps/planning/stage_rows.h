// A table with a row for each rank of a pipeline, short for many. Pure.
#pragma once

#include <string>
#include <vector>

#include "plan/mesh_places.h"

namespace trainer {

// "stage 0 (ranks 0-1)", "stages 0, 2 (8 ranks)".
std::string stage_name(const fsdp::plan::Mesh& mesh, const fsdp::plan::MeshPlaces& places, int pipeline_rank);

class StageRows {
 public:
  // Columns of bytes.
  StageRows(std::string name, std::vector<std::string> columns);

  void add(const std::string& name, const std::vector<double>& bytes);
  // If there are many rows: the first, the last, and the row whose last column is the largest.
  std::string text() const;

 private:
  struct StageRow {
    std::string text;
    double last = 0;
  };

  std::string heading_;
  std::vector<std::string> columns_;
  std::vector<StageRow> rows_;
};

}  // namespace trainer

#include "planning/mesh_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "console/units.h"
#include "options/mesh_choice.h"
#include "planning/mesh_memory.h"
#include "planning/mesh_traffic.h"
#include "planning/places_text.h"
#include "planning/plan_text.h"
#include "planning/stage_rows.h"
#include "stages/cuts.h"

namespace trainer {

namespace {

using fsdp::plan::Mesh;
using fsdp::plan::MeshPlaces;
using fsdp::plan::RankTraffic;

double state_bytes(const fsdp::plan::StateMemory& plan) {
  return static_cast<double>(plan.parameters + plan.gradients + plan.optimizer - plan.offloaded + plan.resident -
                             plan.on_host + plan.save_copy);
}

double buffer_bytes(const fsdp::plan::StateMemory& plan) {
  return static_cast<double>(plan.full_parameters + plan.full_gradients);
}

}  // namespace

std::string mesh_overview(const RunPlan& plan) {
  const Mesh mesh = planned_mesh(plan.options);
  std::string text = "mesh\n" + plan_line("ranks", mesh_text(plan.options, /*places=*/""));
  text += plan_line("hosts", places_text(MeshPlaces(mesh.sizes, plan.hosts)));
  if (mesh.sizes.pipeline == 1) return text;
  text += plan_line("stages",
                    fmt::format("of {} blocks: embeddings, layers, norm, head", fsdp::stages::to_string(mesh.cuts)));
  const fsdp::plan::IdleShares idle = idle_shares(mesh, plan.options);
  const auto [least, most] = std::ranges::minmax(idle.of_rank);
  return text + plan_line("idle", fmt::format("{:.1f} % of a step, by the operations of the stages ({:.1f} to {:.1f} % "
                                              "by rank); {:.1f} % if they were equal",
                                              100 * idle.mean, 100 * least, 100 * most, 100 * idle.equal_stages));
}

std::string mesh_memory_text(const RunPlan& plan) {
  const Mesh mesh = planned_mesh(plan.options);
  const MeshPlaces places(mesh.sizes, plan.hosts);
  const MeshMemory memory = mesh_memory(plan);
  StageRows rows(plan.host.on_gpus ? "memory of a GPU, at most" : "memory of a rank, at most",
                 {"state", "buffers", "activations", "messages", "others", "in all"});
  for (int rank = 0; rank < mesh.sizes.pipeline; ++rank) {
    const StageMemory& stage = memory.of_stage[static_cast<size_t>(rank)];
    const fsdp::plan::StateMemory& model = stage.largest();
    rows.add(stage_name(mesh, places, rank),
             {state_bytes(model), buffer_bytes(model), stage.tensors.activations, stage.tensors.messages,
              stage.tensors.others, stage.of_rank(model) + memory.process});
  }
  std::string text = rows.text();
  if (!plan.host.on_gpus)
    text += plan_line("program", fmt::format("{} of each rank are the program's and LibTorch's, and {} once for a host",
                                             plan_bytes(memory.process), plan_bytes(memory.program)));
  return text;
}

std::string mesh_traffic_text(const RunPlan& plan) {
  const Mesh mesh = planned_mesh(plan.options);
  const MeshPlaces places(mesh.sizes, plan.hosts);
  StageRows rows("a rank receives per step", {"pipeline", "tensor", "gathers", "reductions", "tied", "across"});
  for (int rank = 0; rank < mesh.sizes.pipeline; ++rank) {
    const RankTraffic traffic = traffic_of_rank(plan.options, plan.host.on_gpus, mesh, places, {.pipeline = rank});
    rows.add(stage_name(mesh, places, rank), {traffic.pipeline.sum(), traffic.tensor.sum(), traffic.data.gathers.sum(),
                                              traffic.data.reductions.sum(), traffic.tied.sum(), traffic.sum().across});
  }
  const bool has_across = plan.hosts > 1;
  return rows.text() + (has_across ? plan_line("across", "bytes that come from other hosts") : "");
}

}  // namespace trainer

#include "crash/saved_model.h"

#include <fcntl.h>
#include <fsdp/fsdp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <functional>
#include <iostream>
#include <iterator>
#include <set>
#include <sstream>
#include <stdexcept>

#include "run/checkpoints.h"

namespace crash {

namespace fs = std::filesystem;

namespace {

constexpr size_t kMostRanks = 8;
constexpr const char* kSaved = "saved";

// On the ranks of one job.
class Model {
 public:
  Model(fsdp::World& world, int64_t width)
      : module_(torch::nn::Linear(width, width + 16), torch::nn::Linear(width + 16, 8)),
        sharded_(fsdp::shard(*module_, world, {.units = fsdp::units_of<torch::nn::LinearImpl>()})),
        optimizer_(sharded_) {}

  fsdp::Checkpoint checkpoint(int64_t step) { return {.model = &sharded_, .optimizer = &optimizer_, .step = step}; }

  void fill(int64_t step) {
    for_each_piece([step](torch::Tensor piece, int64_t first) { piece.copy_(values(piece, first, step)); });
  }
  bool is_filled(int64_t step) {
    bool all = true;
    for_each_piece([&](const torch::Tensor& piece, int64_t first) {
      all = all && torch::equal(piece, values(piece, first, step));
    });
    return all;
  }

 private:
  // No two steps have one in common.
  static torch::Tensor values(const torch::Tensor& piece, int64_t first, int64_t step) {
    return (torch::arange(first, first + piece.numel()) * 8 + step).to(piece.scalar_type());
  }

  template <typename Visit>
  void for_each_piece(Visit visit) {
    torch::NoGradGuard no_grad;
    const fsdp::Optimizer::State state = optimizer_.state();
    for (size_t i = 0; i < sharded_.parameters().size(); ++i) {
      const fsdp::ShardedParameter& parameter = sharded_.parameters()[i];
      visit(parameter.piece, parameter.offset);
      for (const auto& element : state.elements) visit(element.tensors[i], parameter.offset);
    }
  }

  torch::nn::Sequential module_;
  fsdp::ShardedModel sharded_;
  fsdp::AdamW optimizer_;
};

// Memory that the ranks write their outcomes into, however they end.
class Outcomes {
 public:
  Outcomes()
      : texts_(static_cast<Texts*>(
            mmap(nullptr, sizeof(Texts), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))) {
    if (texts_ == MAP_FAILED) throw std::runtime_error("no memory for the outcomes of ranks");
  }
  ~Outcomes() { munmap(texts_, sizeof(Texts)); }
  Outcomes(const Outcomes&) = delete;
  Outcomes& operator=(const Outcomes&) = delete;

  void write(int rank, const std::string& text) { text.copy((*texts_)[static_cast<size_t>(rank)].data(), kMostBytes); }
  std::vector<std::string> read(int ranks) const {
    std::vector<std::string> all;
    for (int rank = 0; rank < ranks; ++rank) all.emplace_back((*texts_)[static_cast<size_t>(rank)].data());
    return all;
  }

 private:
  static constexpr size_t kMostBytes = 2047;
  using Texts = std::array<std::array<char, kMostBytes + 1>, kMostRanks>;
  Texts* texts_;
};

// A file for the output of a process, without a name.
std::string read_to_end(int descriptor) {
  std::string text;
  std::array<char, 4096> bytes{};
  off_t at = 0;
  for (ssize_t count; (count = pread(descriptor, bytes.data(), bytes.size(), at)) > 0; at += count) {
    text.append(bytes.data(), static_cast<size_t>(count));
  }
  return text;
}

// Runs `body` in a process and in a process group of its own; what it returns is the exit code. All that it has forked
// has ended then, too.
Ending run_in_child(const std::function<int()>& body) {
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  const int output = memfd_create("output", MFD_CLOEXEC);
  const pid_t child = fork();
  if (child < 0) throw std::runtime_error("no process can be forked");
  if (child == 0) {
    setpgid(0, 0);
    dup2(output, STDOUT_FILENO);
    dup2(output, STDERR_FILENO);
    int code = 1;
    try {
      code = body();
    } catch (const std::exception& error) {
      std::cerr << error.what() << std::endl;
    }
    std::cout.flush();
    std::fflush(nullptr);
    _exit(code);
  }
  setpgid(child, child);  // whichever of the two comes first
  int status = 0;
  waitpid(child, &status, 0);
  kill(-child, SIGKILL);
  while (waitpid(-child, nullptr, 0) > 0) {
  }
  Ending ending{.was_killed = WIFSIGNALED(status), .exit_code = WEXITSTATUS(status)};
  ending.output = read_to_end(output);
  close(output);
  return ending;
}

fsdp::LaunchOptions launch_options(int ranks) { return {.ranks = ranks, .timeout = std::chrono::seconds(60)}; }

std::string save_on_rank(fsdp::World& world, const Subject& subject, const fs::path& target, int64_t step) {
  torch::set_num_threads(1);
  Model model(world, subject.width);
  model.fill(step);
  try {
    if (subject.beside_steps) {
      fsdp::save_checkpoint_async(target, model.checkpoint(step)).wait();
    } else {
      fsdp::save_checkpoint(target, model.checkpoint(step));
    }
  } catch (const fsdp::Error& error) {
    return error.what();
  }
  if (world.rank() == 0) file_faults::mark();
  return kSaved;
}

std::set<std::string> names_in(const fs::path& folder) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.insert(entry.path().filename().string());
  return names;
}

std::string joined(const std::set<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

// The newest checkpoint that is there.
std::string problem_of_loading(Model& model, const Found& found) {
  const auto latest = fsdp::latest_checkpoint(found.target.parent_path());
  if (!latest) return found.may_be_none ? "" : "no checkpoint is there";
  model.fill(0);
  const int64_t step = fsdp::load_checkpoint(*latest, model.checkpoint(0));
  if (std::ranges::find(found.steps, step) == found.steps.end()) return "found step " + std::to_string(step);
  return model.is_filled(step) ? "" : "the values are not those of step " + std::to_string(step);
}

std::string problem_of_saving(Model& model, const Found& found, int64_t keep) {
  constexpr int64_t kNext = 7;
  if (found.names.empty()) return "";
  model.fill(kNext);
  fsdp::save_checkpoint(found.target, model.checkpoint(kNext));
  if (keep > 0) {
    trainer::tidy_after_crash(found.target.parent_path());
    trainer::remove_old_checkpoints(found.target.parent_path(), keep);
  }
  model.fill(0);
  fsdp::load_checkpoint(found.target, model.checkpoint(0));
  if (!model.is_filled(kNext)) return "a further save has not the values that were saved";
  const std::set<std::string> names = names_in(found.target.parent_path());
  const std::set<std::string> expected(found.names.begin(), found.names.end());
  return names == expected ? "" : "a further save leaves " + joined(names) + "; expected " + joined(expected);
}

std::string problem_of(Model& model, const Found& found, int64_t keep) try {
  const std::string problem = problem_of_loading(model, found);
  return problem.empty() ? problem_of_saving(model, found, keep) : problem;
} catch (const std::exception& error) {
  return error.what();
}

}  // namespace

bool Ending::returned() const {
  return std::ranges::any_of(outcomes, [](const std::string& one) { return one == kSaved; });
}

bool Ending::saved() const {
  return std::ranges::all_of(outcomes, [](const std::string& one) { return one == kSaved; });
}

bool Ending::refused() const {
  return std::ranges::all_of(outcomes, [](const std::string& one) { return !one.empty() && one != kSaved; });
}

Ending save(const Subject& subject, const fs::path& target, int64_t step, const file_faults::Plan& plan) {
  Outcomes outcomes;
  Ending ending = run_in_child([&] {
    file_faults::arm(plan);
    return fsdp::launch(launch_options(subject.ranks), [&](fsdp::World& world) {
      outcomes.write(world.rank(), save_on_rank(world, subject, target, step));
      if (world.rank() == 0 && subject.keep > 0) trainer::remove_old_checkpoints(target.parent_path(), subject.keep);
    });
  });
  ending.outcomes = outcomes.read(subject.ranks);
  return ending;
}

std::string problems_of(const Subject& subject, const std::vector<Found>& all) {
  const Ending ending = run_in_child([&] {
    return fsdp::launch(launch_options(1), [&](fsdp::World& world) {
      torch::set_num_threads(1);
      Model model(world, subject.width);
      for (const Found& found : all) {
        const std::string problem = problem_of(model, found, subject.keep);
        if (!problem.empty()) std::cout << found.about << ": " << problem << "\n";
      }
    });
  });
  return ending.was_killed || ending.exit_code != 0 ? "it could not be loaded: " + ending.output : ending.output;
}

}  // namespace crash

// The situations in which a save is interrupted, and how often that is tried.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "crash/saved_model.h"
#include "support/file_faults.h"

namespace crash {

struct Scene {
  std::string name;
  std::string target;                    // of the save of step 2, in the scene's folder
  std::string older;                     // where step 1 lies; empty: nowhere
  std::vector<std::string> names_after;  // beside the target, once a save has been done
  bool exchanges_names = true;
  int64_t keep = 0;
  bool beside_steps = false;

  friend void PrintTo(const Scene& scene, std::ostream* out) { *out << scene.name; }
};

// A checkpoint beside an older one; in its place, with and without a file system that exchanges names; the first one,
// in folders that are made for it; one after which the older is removed; and one that is saved beside the steps.
const std::vector<Scene>& scenes();

// Step 1 is saved, where the scene has one, to `folder`, which is made.
void prepare(const Scene& scene, const Subject& subject, const std::filesystem::path& folder);

// Of a save in `folder` that may have been interrupted: what is to be found there.
Found found(const Scene& scene, const std::filesystem::path& folder, bool returned, std::string about);

// Saves step 2 under the plan, whose folder is set.
Ending save(const Scene& scene, const Subject& subject, const std::filesystem::path& folder, file_faults::Plan plan);

// Of the calls that a save makes, as a log of it. The save is done in a folder beside the others.
std::vector<file_faults::Logged> calls_of(const Scene& scene, const Subject& subject,
                                          const std::filesystem::path& scratch);

// Whether FSDP_SOAK_SECONDS is in the environment.
bool is_long();
// The longest parts are otherwise tried where an older checkpoint is replaced, and by two ranks in one scene.
bool is_tried_fully(const Scene& scene);
bool is_tried_by_two_ranks(const Scene& scene);
// Calls `round` once; where it is long, again and again until those seconds are over, each time with a larger model or
// more ranks. Says how many cases each did, which it returns.
void in_rounds(int ranks, const std::function<int64_t(const Subject&)>& round);

}  // namespace crash

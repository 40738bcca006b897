// Which run is meant by --resume, and where it lies.
#pragma once

#include <string>

#include "options/command_line.h"
#include "options/configuration_file.h"

namespace trainer {

// RUN/config.toml of the run that `path` is, or is a checkpoint of; empty where there is none.
std::string configuration_of_run(const std::string& path);

// The option that takes `path`, with it, where a word that is no option's is a path: "--config run.toml", "--resume
// run-1", "--text book.txt"; empty: there is no such file or folder.
std::string path_meant(const std::string& path);

// A --resume that names a run's folder is that run, in its folder; one that names a checkpoint of a run goes on in that
// run's folder, unless --run names another. `in_flags`: what the command line gives. Appends what cannot be.
void settle_resume(const Rows& in_flags, CommandLine& line);

// Notes the step and the tensor parts of the run that goes on with its own configuration, so that other ranks keep
// them. `before`: the options without the flags. Nothing changes where the flags say what they are.
void settle_step(const Rows& in_flags, const RunOptions& before, RunOptions& options);

}  // namespace trainer

// What `init` makes: a folder of files, gathered first and written then, and what it has found as
// the text of model.textproto (docs/bundle.md).
#ifndef BEAMWRIGHT_TOOLS_BUNDLE_BUNDLE_FOLDER_H_
#define BEAMWRIGHT_TOOLS_BUNDLE_BUNDLE_FOLDER_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "beamwright/v1/model.pb.h"
#include "tools/graph/roles.h"

namespace beamwright::tools {

// The folder that `init` makes: its files, first gathered, then written.

// Content of the bundle's files by name.
using Files = std::map<std::string, std::string>;

// InvalidArgument: another file of this name is there.
absl::Status AddFile(const std::string& name, std::string content, Files& files);

// AlreadyExists: the folder is there and not empty.
absl::Status CheckOut(const std::string& out);
// Makes the folder. Unknown: the system's reason, with the path; then the folder is removed.
absl::Status WriteFiles(const std::string& out, const Files& files);
// Removes the folder of an `init` that failed, which was empty or missing before: the next call
// with this --out works.
void RemoveBundle(const std::string& out);

// What `init` has found as the message of model.textproto (docs/bundle.md), and that file's text.

// `graph`: the file's name in the bundle.
v1::EncoderConfig EncoderConfigOf(const std::string& graph, const ops::EncoderRoles& roles);
// Starts of states and memory that follow from names are left to the server, which finds them.
v1::DecoderConfig DecoderConfigOf(const std::string& graph, const ops::DecoderRoles& roles);
v1::CtcConfig CtcConfigOf(const ops::CtcRoles& roles, int32_t blank);
// `joiner`: empty if the predictor's graph is both.
v1::TransducerConfig TransducerConfigOf(const std::string& predictor, const std::string& joiner,
                                        const ops::TransducerRoles& roles);

// What the server refuses the bundle for until it is written, one line each; empty if the
// bundle is complete.
std::vector<std::string> OpenQuestions(const v1::ModelConfig& config);

// The text, with the reasons of all guesses and the open questions as comments before it.
std::string FormatBundle(const v1::ModelConfig& config, absl::Span<const std::string> reasons);

}  // namespace beamwright::tools

#endif  // BEAMWRIGHT_TOOLS_BUNDLE_BUNDLE_FOLDER_H_

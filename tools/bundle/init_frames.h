// `init` for models that search by frames: CTC outputs and transducers, as icefall and sherpa,
// NeMo, Hugging Face and OCR toolkits export them, and taggers.
#ifndef BEAMWRIGHT_TOOLS_BUNDLE_INIT_FRAMES_H_
#define BEAMWRIGHT_TOOLS_BUNDLE_INIT_FRAMES_H_

#include <ostream>

#include "absl/status/status.h"
#include "tools/bundle/init.h"

namespace beamwright::tools {

// Whether the graphs are such a model: by a flag, or where nothing else fits. One graph without
// tokens whose scores have three axes is CTC; with a joiner behind a predictor, or with both in one
// graph, it is a transducer; with tokens and scores for other labels than those tokens, a tagger.
// Files that can't be read are not: the next reader says why.
bool SearchesByFrames(const InitOptions& options);

// As InitBundle. Paths stand in the options as the command line has them: the last graph is
// `decoder`, the one before it `encoder`, unless there are three.
absl::Status InitFrameBundle(const InitOptions& options, std::ostream& output);

}  // namespace beamwright::tools

#endif  // BEAMWRIGHT_TOOLS_BUNDLE_INIT_FRAMES_H_

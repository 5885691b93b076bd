// LabelsOf: an n-gram model, of tokens or of words, a lexicon or a count of words, as a search by
// frames asks it, label by label. Private to engine/.
#ifndef BEAMWRIGHT_ENGINE_MODEL_NGRAM_LABELS_H_
#define BEAMWRIGHT_ENGINE_MODEL_NGRAM_LABELS_H_

#include <memory>
#include <utility>

#include "engine/fusion/lexicon.h"
#include "engine/fusion/ngram_model.h"
#include "engine/fusion/word_ngram.h"
#include "engine/search/frames/label_scorer.h"

namespace beamwright::engine {

template <typename Model>
class LabelsOf final : public search::LabelScorer {
 public:
  explicit LabelsOf(std::shared_ptr<const Model> model) : model_(std::move(model)) {}

  int64_t Start() const override { return model_->Start(); }
  int64_t Next(int64_t state, int32_t label) const override {
    return model_->Next(static_cast<typename Model::State>(state), label);
  }
  float LogProb(int64_t state, int32_t label) const override {
    return model_->LogProb(static_cast<typename Model::State>(state), label);
  }
  float LogProbOfEnd(int64_t state) const override {
    return model_->LogProbOfEnd(static_cast<typename Model::State>(state));
  }

 private:
  const std::shared_ptr<const Model> model_;
};

// Null of a null model.
template <typename Model>
std::shared_ptr<const search::LabelScorer> MakeLabels(std::shared_ptr<const Model> model) {
  return model == nullptr ? nullptr : std::make_shared<const LabelsOf<Model>>(std::move(model));
}

}  // namespace beamwright::engine

#endif  // BEAMWRIGHT_ENGINE_MODEL_NGRAM_LABELS_H_

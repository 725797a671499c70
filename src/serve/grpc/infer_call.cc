#include "serve/grpc/infer_call.h"

#include <boost/asio/post.hpp>
#include <utility>

#include "serve/grpc/grpc_tensors.h"
#include "serve/grpc/wire.h"

namespace sullae::serve {

using inference::ModelInferResponse;

InferCall::InferCall(const InferParts& parts, const grpc::ByteBuffer& wire, InferListener listener)
    : parts_(parts), wire_(wire), listener_(std::move(listener)), memory_(parts.budget) {}

// Does `step`, and ends the call with what it throws.
template <class Step>
void InferCall::attempt(Step step) {
  try {
    step();
  } catch (const std::exception&) {
    listener_.done(head_, std::current_exception());
  }
}

template <class Step>
void InferCall::post(Step step) {
  boost::asio::post(parts_.workers,
                    [self = shared_from_this(), step] { self->attempt([&] { step(*self); }); });
}

void InferCall::start() {
  attempt([this] {
    if (wire_.Length() > kQuickBytes) {
      return post([](InferCall& self) {
        self.parse_and_choose();
        self.answer();
      });
    }
    parse_and_choose();
    if (version_->model().codec().decodes_slowly())
      return post([](InferCall& self) { self.answer(); });
    answer();
  });
}

void InferCall::parse_and_choose() {
  parse(wire_, memory_, request_);
  wire_.Clear();
  head_.set_id(request_.id());
  head_.set_model_name(request_.model_name());
  version_ = parts_.repository.choose(request_.model_name(), request_.model_version());
  head_.set_model_version(std::to_string(version_->number()));
}

void InferCall::answer() {
  if (version_->model().language() && asks_for_text(request_)) {
    write_text();
  } else {
    infer();
  }
}

void InferCall::infer() {
  auto request =
      from_grpc(std::move(request_), [this](std::int64_t rows) { version_->check_rows(rows); });
  Version::infer(
      version_, std::move(request),
      [self = shared_from_this()](Version::Result result) {
        self->attempt([&] {
          if (result.error) std::rethrow_exception(result.error);
          ModelInferResponse response = self->head_;
          to_grpc(std::move(result.response), response);
          self->listener_.done(std::move(response), nullptr);
        });
      },
      arrived_);
}

void InferCall::write_text() {
  const auto asked = request_.parameters().find("triton_enable_empty_final_response");
  empty_end_ = asked != request_.parameters().end() && asked->second.bool_param();
  text_.emplace(std::move(request_), /*streamed=*/static_cast<bool>(listener_.wrote));
  GenerationListener heard{.done = [self = shared_from_this()](const Generated& generated) {
    self->attempt([&] { self->end_text(generated); });
  }};
  if (text_->by_pieces()) {
    heard.wrote = [self = shared_from_this()](const std::string& text) {
      ModelInferResponse response = self->head_;
      self->text_->add_text(text, response);
      return self->listener_.wrote(std::move(response));
    };
  }
  parts_.generations.start(version_, text_->generate(), std::move(heard));
}

void InferCall::end_text(const Generated& generated) {
  if (generated.error) std::rethrow_exception(generated.error);
  ModelInferResponse response = head_;
  text_->add_end(generated, response);
  if (!listener_.wrote || !empty_end_) return listener_.done(std::move(response), nullptr);
  if (listener_.wrote(std::move(response))) listener_.done(head_, nullptr);
}

}  // namespace sullae::serve

// Elements of tensors in JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "http/budget.h"
#include "serve/tensors.h"

namespace sullae::serve {

/// Parses a body. Throws RequestError: invalid, with the place of the mistake; with `memory`,
/// too_large and unavailable where what it becomes would take more than is left of it.
nlohmann::json parse_json(std::string_view text, http::Reservation* memory = nullptr);
/// Before an answer with so many elements is made as JSON, which takes far more memory than they
/// do. Throws RequestError: too_large, unavailable.
void reserve_answer(http::Reservation& memory, std::size_t elements);

/// Of what a client sent as much as a message needs.
std::string shorten(std::string text);

/// Appends the elements of `value`, lists flattened, to `tensor`. Throws RequestError (invalid) for
/// an element that `tensor`'s type cannot hold.
void append_elements(const nlohmann::json& value, InferTensor& tensor);
/// The sizes of nested lists; empty for what is no list. `base64` texts of the form {"b64": "…"}
/// are no lists.
std::vector<std::int64_t> shape_of(const nlohmann::json& value);

/// One element.
nlohmann::json element_to_json(const InferTensor& tensor, std::size_t index);
/// All elements, as one flat list.
nlohmann::json elements_to_json(const InferTensor& tensor);
/// Elements from `first` on as nested lists of the sizes shape[dimension …].
nlohmann::json nested_to_json(const InferTensor& tensor, std::size_t dimension, std::size_t& first);

}  // namespace sullae::serve

-- What is left of the payload of an erased payment. ?1 message.
SELECT json_patch('{}', json_object('amount_minor', json(amount_minor), 'currency_code', currency_code))
FROM payment_erased WHERE message_id = ?1

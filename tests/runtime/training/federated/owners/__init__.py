"""What Flower sends to those who take part in `test_federated`."""

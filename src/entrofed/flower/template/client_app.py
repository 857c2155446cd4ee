"""The client: trains on what it holds, as the server's method asks."""

from entrofed.flower import Task, client_app
from entrofed.flower.template.task import local_data, model

app = client_app(Task(build=model, load=local_data))  # epsilon=0.5 noises the label counts before they leave
